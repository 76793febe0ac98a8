package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Health is what a daemon says of itself.
type Health struct {
	Status             string         `json:"status"`
	DaemonVersion      string         `json:"daemon_version"`
	DBPath             string         `json:"db_path"`
	InterpreterRef     string         `json:"interpreter_ref"`
	InterpreterVersion string         `json:"interpreter_version"`
	Engines            []HealthEngine `json:"engines"`
}

// HealthEngine is one engine that a daemon can run.
type HealthEngine struct {
	Name    string `json:"name"`
	Ref     string `json:"ref"`
	Version string `json:"version"`
}

// Object is an object as a daemon shows it. Payload is nil unless it was asked for.
type Object struct {
	world.ObjectMeta
	Payload []byte `json:"payload,omitzero"`
}

// RegistryHead is a registry's head as a daemon shows it.
type RegistryHead struct {
	Name string    `json:"name"`
	Head world.Ref `json:"head"`
}

// get reads one JSON answer into v and gives its text as it came.
func (c *HTTP) get(ctx context.Context, path string, v any) (jsontext.Value, error) {
	a, err := c.send(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, c.restError(a)
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		return nil, c.unreadable(err)
	}
	return a.body, nil
}

func (c *HTTP) unreadable(err error) error {
	return &world.Error{Op: "client", Kind: world.KindInternal, Msg: fmt.Sprintf("the answer of %s cannot be read: %v", c.base, err),
		Hint: "is that address an ailang-worldd's of this version?", Err: err}
}

// Health asks GET /v1/health. Like the other reads it also gives the text as it came.
func (c *HTTP) Health(ctx context.Context) (h Health, text jsontext.Value, err error) {
	text, err = c.get(ctx, "/v1/health", &h)
	if err == nil && h.Status == "" {
		err = c.unreadable(fmt.Errorf("it has no status"))
	}
	return h, text, err
}

// Head asks GET /v1/head; before genesis it is KindNotFound.
func (c *HTTP) Head(ctx context.Context) (world.Ref, error) {
	a, err := c.send(ctx, http.MethodGet, "/v1/head", nil, nil)
	if err != nil {
		return hashref.None, err
	}
	if a.status != http.StatusOK {
		return hashref.None, c.restError(a)
	}
	ref, err := hashref.Parse(strings.TrimSpace(string(a.body)))
	if err != nil {
		return hashref.None, c.unreadable(err)
	}
	return ref, nil
}

// World asks for one world.
func (c *HTTP) World(ctx context.Context, ref world.Ref) (w world.World, text jsontext.Value, err error) {
	text, err = c.get(ctx, "/v1/worlds/"+ref.String(), &w)
	return w, text, err
}

// Object asks for one object. A payload that is not the one its reference names is
// KindIntegrity.
func (c *HTTP) Object(ctx context.Context, ref world.Ref, payload bool) (o Object, text jsontext.Value, err error) {
	path := "/v1/objects/" + ref.String()
	if payload {
		path += "?payload=true"
	}
	text, err = c.get(ctx, path, &o)
	if err == nil && payload && hashref.Sum(o.Payload) != ref {
		err = world.Errorf(world.KindIntegrity, "client", "the payload that %s gave is not that of %s", c.base, ref)
	}
	return o, text, err
}

// page is a list on the wire.
type page[T any] struct {
	Items []T `json:"items"`
}

// ObjectsBySemanticID asks for a page of objects, strictly after a hash.
func (c *HTTP) ObjectsBySemanticID(ctx context.Context, id string, after world.Ref, limit int) ([]world.ObjectMeta, jsontext.Value, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if !after.IsNone() {
		q.Set("after", after.String())
	}
	var p page[world.ObjectMeta]
	text, err := c.get(ctx, "/v1/objects/by-semantic-id/"+escapeName(id)+"?"+q.Encode(), &p)
	return p.Items, text, err
}

// escapeName escapes a name but for its slashes.
func escapeName(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// Entry asks for one log entry.
func (c *HTTP) Entry(ctx context.Context, index int64) (e world.Entry, text jsontext.Value, err error) {
	text, err = c.get(ctx, "/v1/log/"+strconv.FormatInt(index, 10), &e)
	return e, text, err
}

// Entries asks for a page of log entries.
func (c *HTTP) Entries(ctx context.Context, from int64, limit int) ([]world.Entry, jsontext.Value, error) {
	q := url.Values{"from": {strconv.FormatInt(from, 10)}, "limit": {strconv.Itoa(limit)}}
	var p page[world.Entry]
	text, err := c.get(ctx, "/v1/log?"+q.Encode(), &p)
	return p.Items, text, err
}

// Registry asks for a registry's head.
func (c *HTTP) Registry(ctx context.Context, name string) (h RegistryHead, text jsontext.Value, err error) {
	text, err = c.get(ctx, "/v1/registry/"+escapeName(name), &h)
	return h, text, err
}

// Commit posts a world transition as it stands, and gives the head that it selected.
func (c *HTTP) Commit(ctx context.Context, body []byte) (world.Ref, error) {
	a, err := c.send(ctx, http.MethodPost, "/v1/commit", map[string]string{"Content-Type": "application/json"}, body)
	if err != nil {
		return hashref.None, err
	}
	if a.status != http.StatusOK {
		return hashref.None, c.restError(a)
	}
	var done struct {
		SelectedHead world.Ref `json:"selectedHead"`
	}
	if err := json.Unmarshal(a.body, &done); err != nil {
		return hashref.None, c.unreadable(err)
	}
	return done.SelectedHead, nil
}
