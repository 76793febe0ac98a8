package mcp

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

const serverName = "ailang-worldd"

// instructions tell a model what it cannot see from the tools alone.
const instructions = `Each tool is a published transition that your session's grants admit; the list may change between calls. ` +
	`Every answered call is recorded for ever. A result {"ok":false,"refused":"..."} is an answer, not a failure: read the reason and call again with other arguments. ` +
	`A repeated call is a new invocation and may repeat its effects, so look at the state of things before you retry a call whose answer was lost.`

// invalidParams refuses one request for what its params are.
func invalidParams(format string, args ...any) error {
	return surface.Error{Code: surface.CodeInvalidParams, Message: "invalid params: " + fmt.Sprintf(format, args...)}
}

// members splits params; none and null are empty.
func members(params jsontext.Value) (map[string]jsontext.Value, error) {
	if absent(params) {
		return nil, nil
	}
	m, err := hashref.Members(params)
	if err != nil {
		return nil, invalidParams("params %s", surface.Reason(err))
	}
	return m, nil
}

func absent(v jsontext.Value) bool { return v == nil || v.Kind() == 'n' }

// initialize answers with the version that was asked for, or else with the newest. Nothing
// is remembered of it.
func (h *Handler) initialize(params jsontext.Value) ([]byte, error) {
	m, err := members(params)
	if err != nil {
		return nil, err
	}
	version, ok := surface.String(m["protocolVersion"])
	if !ok {
		return nil, invalidParams("protocolVersion must be a string")
	}
	for _, name := range []string{"capabilities", "clientInfo"} {
		if v, there := m[name]; there && v.Kind() != '{' {
			return nil, invalidParams("%s must be an object", name)
		}
	}
	if !slices.Contains(versions, version) {
		version = versionLatest
	}
	dst := []byte(`{"protocolVersion":`)
	dst = surface.AppendString(dst, version)
	dst = append(dst, `,"capabilities":{"tools":{"listChanged":false}},"serverInfo":{"name":`...)
	dst = surface.AppendString(dst, serverName)
	dst = append(dst, `,"version":`...)
	dst = surface.AppendString(dst, h.cfg.Version)
	dst = append(dst, `},"instructions":`...)
	dst = surface.AppendString(dst, instructions)
	return append(dst, '}'), nil
}

func ping(params jsontext.Value) ([]byte, error) {
	if _, err := members(params); err != nil {
		return nil, err
	}
	return []byte("{}"), nil
}

// listTools answers with every tool at once, so there is no cursor that could be asked for.
func (x *exchange) listTools(params jsontext.Value) ([]byte, error) {
	m, err := members(params)
	if err != nil {
		return nil, err
	}
	if !absent(m["cursor"]) {
		return nil, invalidParams("there is no cursor: tools/list answers with all tools at once")
	}
	seen, err := x.view()
	if err != nil {
		return nil, err
	}
	dst := []byte(`{"tools":[`)
	for i, d := range seen {
		if i > 0 {
			dst = append(dst, ',')
		}
		tool, err := x.h.tools.rendered(d)
		if err != nil {
			return nil, err
		}
		dst = append(dst, tool...)
	}
	return append(dst, "]}"...), nil
}

// callTool runs one transition. Each call is a new invocation, whatever its id.
func (x *exchange) callTool(params jsontext.Value) ([]byte, error) {
	name, args, err := parseCall(params)
	if err != nil {
		return nil, err
	}
	unknown := surface.Error{Code: surface.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", name)}
	id, ok := registry.TransitionID(name)
	seen, err := x.view()
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(seen, func(d *world.Descriptor) bool { return d.ID == id })
	if !ok || at < 0 {
		x.refused(world.KindNotAuthorized)
		return nil, unknown
	}
	if x.h.cfg.Limits != nil {
		if x.wait = x.h.cfg.Limits.Admit(x.session, seen[at].RateClass); x.wait > 0 {
			x.refused(world.KindCapacity)
			return nil, surface.RateLimited(x.wait)
		}
	}
	res, err := x.invoke(id, args)
	if surface.KindOf(err) == world.KindNotAuthorized {
		if surface.HasCause(err) {
			x.h.door.Log(name, err)
		}
		return nil, unknown
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	dst := []byte(`{"content":[{"type":"text","text":`)
	dst = surface.AppendString(dst, res.Output)
	dst = append(dst, `}],"structuredContent":`...)
	dst = append(dst, res.Output...)
	return append(dst, '}'), nil
}

func (x *exchange) refused(kind world.Kind) {
	if x.h.cfg.Refused != nil {
		x.h.cfg.Refused(kind)
	}
}

// parseCall reads the params of tools/call. The arguments come out canonical.
func parseCall(params jsontext.Value) (name string, args []byte, err error) {
	m, err := members(params)
	if err != nil {
		return "", nil, err
	}
	name, ok := surface.String(m["name"])
	if !ok {
		return "", nil, invalidParams("name must be a string")
	}
	raw := m["arguments"]
	if absent(raw) {
		return name, []byte("{}"), nil
	}
	args, err = hashref.CanonicalObject(raw)
	if err != nil {
		return "", nil, invalidParams("arguments %s", surface.Reason(err))
	}
	if len(args) > coordinator.MaxArgs {
		return "", nil, invalidParams("arguments are larger than %d bytes", coordinator.MaxArgs)
	}
	return name, args, nil
}

// invoke hands one call to the host, within its own deadline and one of the slots.
func (x *exchange) invoke(id string, args []byte) (coordinator.Result, error) {
	if err := x.h.room(); err != nil {
		x.refused(world.KindCapacity)
		return coordinator.Result{}, err
	}
	ctx, cancel := context.WithTimeout(x.ctx, CallbackDeadline)
	defer cancel()
	return surface.Within(ctx, Grace, x.h.door.Late(id), func(ctx context.Context) (coordinator.Result, error) {
		return x.h.cfg.Calls.Invoke(ctx, coordinator.Call{
			Surface: world.SurfaceMCP,
			Session: x.session,
			Skill:   id,
			Args:    args,
			Slot:    x.h.slot,
		})
	})
}
