package surface

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// CodeRateLimited is the error of a caller whose calls are used up for now.
const CodeRateLimited = -32003

// RateLimited is that error; wait is when a call will succeed again, in whole seconds.
func RateLimited(wait time.Duration) Error {
	return Error{Code: CodeRateLimited, Message: "Rate limit exceeded: try again in " + seconds(wait) + " s",
		Data: jsontext.Value(`{"retryAfter":` + seconds(wait) + `}`)}
}

// RateLimitedReply is the whole answer to a request that was refused for it.
func RateLimitedReply(id ID, wait time.Duration) Reply {
	reply := RPCError(http.StatusTooManyRequests, id, RateLimited(wait))
	reply.Header = map[string]string{"Retry-After": seconds(wait)}
	return reply
}

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }
