package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/world"
)

// Bounds of the socket.
const (
	MaxRequest     = 64 << 20         // bytes of one request: a manifest with all its sources
	RequestTimeout = 60 * time.Second // one operation
	maxSocketPath  = 100              // bytes; the kernel takes 107
	answerTimeout  = time.Second      // to find out whether a socket is somebody's
)

// SocketPath is where the daemon of a store listens for operators: <db>.admin.sock, or,
// where that is too long for a socket, a name made of its hash under runtimeDir. A database
// that is no file is named by its URL without the password, and always has such a name.
func SocketPath(db, runtimeDir string) (string, error) {
	if strings.Contains(db, "://") {
		return filepath.Join(runtimeDir, "ailang-world-"+hashref.SumString(db).Hex()[:32]+".sock"), nil
	}
	abs, err := filepath.Abs(db)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	p := abs + ".admin.sock"
	if len(p) <= maxSocketPath {
		return p, nil
	}
	return filepath.Join(runtimeDir, "ailang-world-"+hashref.SumString(abs).Hex()[:32]+".sock"), nil
}

// Listen opens the socket for this user alone. A socket that a killed daemon left behind
// is replaced: the caller holds the store's writer lock, or has seen that nobody answers.
func Listen(path string) (net.Listener, error) {
	if st, err := os.Lstat(path); err == nil {
		if st.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("%s is in the way: it is no socket", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	return net.Listen("unix", path)
}

// Answers tells whether somebody listens on a socket.
func Answers(path string) bool {
	c, err := net.DialTimeout("unix", path, answerTimeout)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// call is one operation on the wire: its request's JSON in, its answer out.
type call func(ctx context.Context, ops Ops, body []byte) (any, error)

// with decodes a request before it calls f.
func with[T any](f func(ctx context.Context, ops Ops, req T) (any, error)) call {
	return func(ctx context.Context, ops Ops, body []byte) (any, error) {
		var req T
		if err := hashref.Decode(body, &req); err != nil {
			return nil, world.Errorf(world.KindBadRequest, "admin.Server", "request: %v", err)
		}
		return f(ctx, ops, req)
	}
}

// Requests that are more than one value.
type (
	// Text carries a goal, an episode or a credential.
	Text struct {
		Text string `json:"text"`
	}
	// IDs carries transition ids.
	IDs struct {
		IDs []string `json:"ids"`
	}
	// Verdict carries a decision on an approval.
	Verdict struct {
		ID       string             `json:"id"`
		Decision approvals.Decision `json:"decision"`
	}
	// Documents carries the payloads of documents' objects, and who wrote them.
	Documents struct {
		Provenance string   `json:"provenance"`
		Payloads   [][]byte `json:"payloads"` // in base64
	}
	// ID carries a credential id.
	ID struct {
		ID world.Ref `json:"id"`
	}
)

// calls is the table of operations, by the last element of their path.
var calls = map[string]call{
	"status":  with(func(ctx context.Context, o Ops, _ struct{}) (any, error) { return o.Status(ctx) }),
	"genesis": with(func(ctx context.Context, o Ops, r Text) (any, error) { return o.Genesis(ctx, r.Text) }),
	"mint":    with(func(ctx context.Context, o Ops, r MintRequest) (any, error) { return o.Mint(ctx, r) }),
	"sessions": with(func(ctx context.Context, o Ops, r Text) (any, error) {
		return o.Sessions(ctx, r.Text)
	}),
	"lookup": with(func(ctx context.Context, o Ops, r Text) (any, error) { return o.Lookup(ctx, r.Text) }),
	"revoke": with(func(ctx context.Context, o Ops, r ID) (any, error) { return struct{}{}, o.Revoke(ctx, r.ID) }),
	"revoke-episode": with(func(ctx context.Context, o Ops, r Text) (any, error) {
		return o.RevokeEpisode(ctx, r.Text)
	}),
	"mint-token": with(func(ctx context.Context, o Ops, r TokenRequest) (any, error) { return o.MintToken(ctx, r) }),
	"tokens":     with(func(ctx context.Context, o Ops, r Text) (any, error) { return o.Tokens(ctx, r.Text) }),
	"revoke-token": with(func(ctx context.Context, o Ops, r ID) (any, error) {
		return struct{}{}, o.RevokeToken(ctx, r.ID)
	}),
	"revoke-subject": with(func(ctx context.Context, o Ops, r Text) (any, error) { return o.RevokeSubject(ctx, r.Text) }),
	"publish":        with(func(ctx context.Context, o Ops, r registry.Manifest) (any, error) { return o.Publish(ctx, r) }),
	"remove":         with(func(ctx context.Context, o Ops, r IDs) (any, error) { return o.Remove(ctx, r.IDs) }),
	"transitions": with(func(ctx context.Context, o Ops, _ struct{}) (any, error) {
		return o.Transitions(ctx)
	}),
	"approvals": with(func(ctx context.Context, o Ops, _ struct{}) (any, error) { return o.Approvals(ctx) }),
	"approval":  with(func(ctx context.Context, o Ops, r Text) (any, error) { return o.Approval(ctx, r.Text) }),
	"decide-approval": with(func(ctx context.Context, o Ops, r Verdict) (any, error) {
		return o.DecideApproval(ctx, r.ID, r.Decision)
	}),
	"put-documents": with(func(ctx context.Context, o Ops, r Documents) (any, error) {
		objects := make([]world.Object, len(r.Payloads))
		for i, p := range r.Payloads {
			objects[i] = world.NewObject(world.SemDocument, r.Provenance, p)
		}
		return struct{}{}, o.PutDocuments(ctx, objects)
	}),
	"check": with(func(ctx context.Context, o Ops, r registry.Manifest) (any, error) { return o.Check(ctx, r) }),
}

// WireError is a refusal on the socket. The peer is the operator, so it carries the whole
// error and not only what a client may be told.
type WireError struct {
	Kind    world.Kind `json:"kind"`
	Message string     `json:"message"`
	Detail  string     `json:"detail"`
}

// Server answers operators on a socket.
type Server struct {
	http http.Server
}

// Serve answers on l until Shutdown. logf gets refusals of foreign users.
func Serve(l net.Listener, ops Ops, logf func(string, ...any)) *Server {
	s := &Server{}
	s.http = http.Server{
		Handler:           handler(ops),
		ReadHeaderTimeout: RequestTimeout,
		ReadTimeout:       RequestTimeout,
		ErrorLog:          nil,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			uid, err := peer(c)
			if err == nil && uid != uint32(os.Geteuid()) && uid != 0 {
				err = fmt.Errorf("user %d may not use the admin socket", uid)
			}
			if err != nil {
				logf("admin socket: connection refused: %v", err)
				c.Close()
			}
			return ctx
		},
	}
	go func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			logf("admin socket: %v", err)
		}
	}()
	return s
}

// Shutdown lets operations under way end, until ctx does.
func (s *Server) Shutdown(ctx context.Context) error { return s.http.Shutdown(ctx) }

// peer is the uid at the other end of a unix connection.
func peer(c net.Conn) (uint32, error) {
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a unix socket")
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, credErr
	}
	return cred.Uid, nil
}

func handler(ops Ops) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{op}", func(w http.ResponseWriter, r *http.Request) {
		f, ok := calls[r.PathValue("op")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), RequestTimeout)
		defer cancel()
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxRequest))
		var answer any
		if err == nil {
			answer, err = f(ctx, ops, body)
		}
		status := http.StatusOK
		if err != nil {
			status, answer = http.StatusUnprocessableEntity, WireError{Kind: world.KindOf(err), Message: world.Message(err), Detail: err.Error()}
		}
		text, err := json.Marshal(answer)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		w.Write(text)
	})
	return mux
}
