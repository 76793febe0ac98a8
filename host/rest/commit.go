package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Texts of a commit that did not come to an answer in time.
const (
	commitTimeoutText = "the commit ran out of time before its durable step; it was not committed and is safe to resend"
	bodyTimeoutText   = "the body did not arrive in time; nothing was committed"
	tooLargeText      = "commit body is over 8388608 bytes"
)

func (a *API) commit(w http.ResponseWriter, r *http.Request) error {
	raw, err := a.readBody(w, r)
	if err != nil {
		return err
	}
	c, err := decodeCommit(raw)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.cfg.Limits.Commit)
	defer cancel()
	done, err := a.cfg.Store.Commit(ctx, c)
	if err != nil {
		return commitError(c, err)
	}
	return a.writeJSON(w, http.StatusOK, struct {
		SelectedHead world.Ref `json:"selectedHead"`
	}{done.World.Ref})
}

// commitError gives the store's refusals this surface's texts. Only what the store is sure
// of is told as not committed: a bare end of the context says nothing of the outcome, so it
// is uncertain.
func commitError(c store.Commit, err error) error {
	switch k := world.KindOf(err); {
	case k == world.KindTimeout:
		return &world.Error{Op: "rest.commit", Kind: k, Msg: commitTimeoutText, Err: err}
	case k == world.KindUncertain, kindOf(err) == world.KindTimeout:
		return &world.Error{Op: "rest.commit", Kind: world.KindUncertain, Msg: reconcileText(c), Err: err}
	}
	return err
}

// reconcileText tells the caller where the outcome can be read.
func reconcileText(c store.Commit) string {
	where := "GET /v1/log/" + strconv.FormatInt(c.Entry.Header.EntryIndex, 10)
	if c.Invocation != "" {
		where = "GET /v1/receipts/" + url.PathEscape(string(c.Invocation))
	}
	return "the commit's outcome is unknown; reconcile via " + where + " before any resend"
}

// readBody reads a whole body of at most MaxBody bytes; boundBody has set the time that it
// has. The buffer grows with what arrives, never with what a header promises.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	const op = "rest.readBody"
	if r.ContentLength > MaxBody {
		return nil, world.Errorf(world.KindTooLarge, op, tooLargeText)
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, world.Errorf(world.KindTooLarge, op, tooLargeText)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &world.Error{Op: op, Kind: world.KindTimeout, Msg: bodyTimeoutText, Err: err}
	case err != nil:
		return nil, &world.Error{Op: op, Kind: world.KindBadRequest, Msg: "body ended before it was complete", Err: err}
	}
	// The server watches the connection while the commit runs; a deadline left behind would
	// look like a caller that hung up.
	if r.ContentLength != 0 {
		if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
			return nil, fmt.Errorf("lifting the bound of the body's arrival: %w", err)
		}
	}
	return raw, nil
}
