package rest

import (
	"context"
	"net/http"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Texts that are frozen with the routes.
const (
	noHeadText    = "no world head has been selected yet"
	receiptIDText = "receipt id must be rest:<id>"

	readTimeoutText = "the read ran out of time; try again"
)

// read bounds one read of the store and gives its errors this surface's texts.
func read[T any](a *API, r *http.Request, missing string, ask func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(r.Context(), a.cfg.Limits.Read)
	defer cancel()
	v, err := ask(ctx)
	if err == nil {
		return v, nil
	}
	switch k := kindOf(err); k {
	case world.KindNotFound:
		err = &world.Error{Op: "rest", Kind: k, Msg: missing, Err: err}
	case world.KindTimeout:
		err = &world.Error{Op: "rest", Kind: k, Msg: readTimeoutText, Err: err}
	case world.KindNoWorld, world.KindIndexMissing:
	default:
		// The input was checked before, so whatever else the store says is its own failure.
		err = world.Wrap(world.KindInternal, "rest", err)
	}
	return v, err
}

func (a *API) health(w http.ResponseWriter, _ *http.Request) error {
	h := a.cfg.Health()
	if h.Engines == nil {
		h.Engines = []Engine{}
	}
	return a.writeJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
		Health
	}{"ok", h})
}

func (a *API) head(w http.ResponseWriter, r *http.Request) error {
	head, err := read(a, r, noHeadText, a.cfg.Store.Head)
	if err != nil {
		return err
	}
	a.writeBody(w, http.StatusOK, "text/plain", []byte(head.World.String()))
	return nil
}

func (a *API) world(w http.ResponseWriter, r *http.Request) error {
	ref, err := pathRef(r)
	if err != nil {
		return err
	}
	wld, err := read(a, r, "world not found", func(ctx context.Context) (world.World, error) {
		return a.cfg.Store.World(ctx, ref)
	})
	if err != nil {
		return err
	}
	return a.writeJSON(w, http.StatusOK, wld)
}

const objectMissing = "object not found"

func (a *API) object(w http.ResponseWriter, r *http.Request) error {
	ref, err := pathRef(r)
	if err != nil {
		return err
	}
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	want, _, err := q.one("payload")
	if err != nil {
		return err
	}
	if want != "true" {
		meta, err := read(a, r, objectMissing, func(ctx context.Context) (world.ObjectMeta, error) {
			return a.cfg.Store.ObjectMeta(ctx, ref)
		})
		if err != nil {
			return err
		}
		return a.writeJSON(w, http.StatusOK, meta)
	}
	obj, err := read(a, r, objectMissing, func(ctx context.Context) (world.Object, error) {
		return a.cfg.Store.Object(ctx, ref)
	})
	if err != nil {
		return err
	}
	return a.writeJSON(w, http.StatusOK, struct {
		world.ObjectMeta
		Payload []byte `json:"payload"`
	}{obj.ObjectMeta, obj.Payload})
}

// page is a list on the wire; nil items are written as [].
type page[T any] struct {
	Items []T `json:"items"`
}

func (a *API) objectsBySemanticID(w http.ResponseWriter, r *http.Request) error {
	name, err := pathName(r)
	if err != nil {
		return err
	}
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	after, err := q.after()
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	items, err := read(a, r, objectMissing, func(ctx context.Context) ([]world.ObjectMeta, error) {
		return a.cfg.Store.ObjectsBySemanticID(ctx, name, after, limit)
	})
	if err != nil {
		return err
	}
	return a.writeJSON(w, http.StatusOK, page[world.ObjectMeta]{items})
}

// after is the reference to resume behind; None when absent.
func (q query) after() (world.Ref, error) {
	s, ok, err := q.one("after")
	if err != nil || !ok {
		return hashref.None, err
	}
	ref, err := hashref.Parse(s)
	if err != nil {
		return hashref.None, bad("after", "%v", err)
	}
	return ref, nil
}

const entryMissing = "log entry not found"

func (a *API) logEntry(w http.ResponseWriter, r *http.Request) error {
	index, ok := decimal(r.PathValue("index"))
	if !ok {
		return bad("log index", "must be a non-negative integer")
	}
	e, err := read(a, r, entryMissing, func(ctx context.Context) (world.Entry, error) {
		return a.cfg.Store.Entry(ctx, index)
	})
	if err != nil {
		return err
	}
	return a.writeJSON(w, http.StatusOK, e)
}

func (a *API) log(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	from, err := q.from()
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	items, err := read(a, r, entryMissing, func(ctx context.Context) ([]world.Entry, error) {
		return a.cfg.Store.Entries(ctx, from, limit)
	})
	if err != nil {
		return err
	}
	return a.writeJSON(w, http.StatusOK, page[world.Entry]{items})
}

// from is the index that a page begins at; 0 when absent.
func (q query) from() (int64, error) {
	s, ok, err := q.one("from")
	if err != nil || !ok {
		return 0, err
	}
	n, ok := decimal(s)
	if !ok {
		return 0, bad("from", "must be a non-negative integer")
	}
	return n, nil
}

func (a *API) registryHead(w http.ResponseWriter, r *http.Request) error {
	name, err := pathName(r)
	if err != nil {
		return err
	}
	head, err := read(a, r, "registry head not found", func(ctx context.Context) (store.RegistryHead, error) {
		return a.cfg.Store.RegistryHead(ctx, name)
	})
	if err != nil {
		return err
	}
	return a.writeJSON(w, http.StatusOK, struct {
		Name string    `json:"name"`
		Head world.Ref `json:"head"`
	}{head.Name, head.Head})
}

// Receipt states on the wire.
const (
	receiptResolved      = "resolved"
	receiptNotStarted    = "not-started"
	receiptIndeterminate = "indeterminate"
)

func (a *API) receipt(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if !validRESTID(id) {
		return world.Errorf(world.KindBadRequest, "rest", receiptIDText)
	}
	inv, err := read(a, r, "", func(ctx context.Context) (store.Invocation, error) {
		return a.cfg.Store.Invocation(ctx, world.InvocationID(id))
	})
	if err != nil {
		return err
	}
	// Whatever is neither landed nor free is for the caller to treat as not landed.
	state, result := receiptIndeterminate, hashref.None
	switch inv.State {
	case store.StateCommitted:
		state, result = receiptResolved, inv.World
	case store.StateUnknown:
		state = receiptNotStarted
	}
	return a.writeJSON(w, http.StatusOK, struct {
		InvocationID string    `json:"invocationId"`
		State        string    `json:"state"`
		ResultRef    world.Ref `json:"resultRef"`
	}{id, state, result})
}
