// Package client is the command line's one door to a daemon: the admin socket for
// operators, and REST, MCP and A2A over HTTP as any other client has them. It owns no
// state and never opens a store. Answers spec/11-cli.md.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Admin asks a running daemon over its admin socket.
type Admin struct {
	http *http.Client
}

var _ admin.Ops = (*Admin)(nil)

// DialAdmin makes an Admin and sees that the daemon answers.
func DialAdmin(ctx context.Context, socket string) (*Admin, error) {
	a := &Admin{http: &http.Client{Timeout: admin.RequestTimeout, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}}
	if _, err := a.Status(ctx); err != nil {
		return nil, fmt.Errorf("admin socket %s: %w", socket, err)
	}
	return a, nil
}

// do makes one operation.
func (a *Admin) do(ctx context.Context, op string, req, answer any) error {
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	hr, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://admin/"+op, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := a.http.Do(hr)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, admin.MaxRequest+1))
	if err != nil {
		return err
	}
	if len(text) > admin.MaxRequest {
		return world.Errorf(world.KindTooLarge, "admin."+op, "the daemon's answer is larger than %d bytes", admin.MaxRequest)
	}
	if resp.StatusCode == http.StatusOK {
		return json.Unmarshal(text, answer)
	}
	var we admin.WireError
	if err := json.Unmarshal(text, &we); err != nil || resp.StatusCode != http.StatusUnprocessableEntity {
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	return &world.Error{Op: "admin." + op, Kind: we.Kind, Msg: we.Message, Err: errors.New(we.Detail)}
}

// Status implements admin.Ops.
func (a *Admin) Status(ctx context.Context) (st admin.Status, err error) {
	err = a.do(ctx, "status", struct{}{}, &st)
	return st, err
}

// Genesis implements admin.Ops.
func (a *Admin) Genesis(ctx context.Context, goal string) (c store.Committed, err error) {
	err = a.do(ctx, "genesis", admin.Text{Text: goal}, &c)
	return c, err
}

// Mint implements admin.Ops.
func (a *Admin) Mint(ctx context.Context, r admin.MintRequest) (m admin.Minted, err error) {
	err = a.do(ctx, "mint", r, &m)
	return m, err
}

// Sessions implements admin.Ops.
func (a *Admin) Sessions(ctx context.Context, episode string) (s []world.Session, err error) {
	err = a.do(ctx, "sessions", admin.Text{Text: episode}, &s)
	return s, err
}

// Lookup implements admin.Ops.
func (a *Admin) Lookup(ctx context.Context, credential string) (s world.Session, err error) {
	err = a.do(ctx, "lookup", admin.Text{Text: credential}, &s)
	return s, err
}

// Revoke implements admin.Ops.
func (a *Admin) Revoke(ctx context.Context, id world.Ref) error {
	return a.do(ctx, "revoke", admin.ID{ID: id}, &struct{}{})
}

// RevokeEpisode implements admin.Ops.
func (a *Admin) RevokeEpisode(ctx context.Context, episode string) (n int, err error) {
	err = a.do(ctx, "revoke-episode", admin.Text{Text: episode}, &n)
	return n, err
}

// MintToken implements admin.Ops.
func (a *Admin) MintToken(ctx context.Context, r admin.TokenRequest) (m admin.MintedToken, err error) {
	err = a.do(ctx, "mint-token", r, &m)
	return m, err
}

// Tokens implements admin.Ops.
func (a *Admin) Tokens(ctx context.Context, subject string) (all []authority.Token, err error) {
	err = a.do(ctx, "tokens", admin.Text{Text: subject}, &all)
	return all, err
}

// RevokeToken implements admin.Ops.
func (a *Admin) RevokeToken(ctx context.Context, id world.Ref) error {
	return a.do(ctx, "revoke-token", admin.ID{ID: id}, &struct{}{})
}

// RevokeSubject implements admin.Ops.
func (a *Admin) RevokeSubject(ctx context.Context, subject string) (n int, err error) {
	err = a.do(ctx, "revoke-subject", admin.Text{Text: subject}, &n)
	return n, err
}

// Publish implements admin.Ops.
func (a *Admin) Publish(ctx context.Context, m registry.Manifest) (p registry.Published, err error) {
	err = a.do(ctx, "publish", m, &p)
	return p, err
}

// Remove implements admin.Ops.
func (a *Admin) Remove(ctx context.Context, ids []string) (p registry.Published, err error) {
	err = a.do(ctx, "remove", admin.IDs{IDs: ids}, &p)
	return p, err
}

// Transitions implements admin.Ops.
func (a *Admin) Transitions(ctx context.Context) (*registry.Snapshot, error) {
	s := &registry.Snapshot{}
	err := a.do(ctx, "transitions", struct{}{}, s)
	return s, err
}

// Check implements admin.Ops.
func (a *Admin) Check(ctx context.Context, m registry.Manifest) (ids []string, err error) {
	err = a.do(ctx, "check", m, &ids)
	return ids, err
}

// Approvals implements admin.Ops.
func (a *Admin) Approvals(ctx context.Context) (all []approvals.Approval, err error) {
	err = a.do(ctx, "approvals", struct{}{}, &all)
	return all, err
}

// Approval implements admin.Ops.
func (a *Admin) Approval(ctx context.Context, id string) (d admin.ApprovalDetail, err error) {
	err = a.do(ctx, "approval", admin.Text{Text: id}, &d)
	return d, err
}

// DecideApproval implements admin.Ops.
func (a *Admin) DecideApproval(ctx context.Context, id string, d approvals.Decision) (done approvals.Approval, err error) {
	err = a.do(ctx, "decide-approval", admin.Verdict{ID: id, Decision: d}, &done)
	return done, err
}

// PutDocuments implements admin.Ops. What is too large for one request goes in several.
func (a *Admin) PutDocuments(ctx context.Context, objects []world.Object) error {
	for len(objects) > 0 {
		r, size := admin.Documents{Provenance: objects[0].Provenance}, 0
		for len(objects) > 0 && objects[0].Provenance == r.Provenance && (size == 0 || size+len(objects[0].Payload) <= maxPut) {
			if objects[0].SemanticID != world.SemDocument {
				return world.Errorf(world.KindBadRequest, "client.PutDocuments", "object %s is no document", objects[0].Hash)
			}
			r.Payloads = append(r.Payloads, objects[0].Payload)
			size, objects = size+len(objects[0].Payload), objects[1:]
		}
		if err := a.do(ctx, "put-documents", r, &struct{}{}); err != nil {
			return err
		}
	}
	return nil
}

// maxPut is how many bytes of payloads go in one request; in base64 they fit into
// admin.MaxRequest.
const maxPut = 32 << 20

// Close implements admin.Ops.
func (a *Admin) Close() error {
	a.http.CloseIdleConnections()
	return nil
}
