package mcp

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/surface"
)

// Versions of the protocol, newest first.
const (
	version20251125 = "2025-11-25"
	version20250618 = "2025-06-18"
	version20250326 = "2025-03-26"

	versionLatest  = version20251125
	versionAssumed = version20250326 // without a header
	versionBatch   = version20250326 // the one that has batches
)

var versions = []string{version20251125, version20250618, version20250326}

// codeVersion is MCP's own code for a protocol version that is not spoken here. Newer
// clients look for it, or for any other 400, before they fall back to initialize.
const codeVersion = -32022

const (
	msgContentType = "Content-Type must be application/json"
	msgAccept      = "Accept must list both application/json and text/event-stream"
)

// checkHeaders judges what a request says of itself, and gives its protocol version.
func checkHeaders(h http.Header) (version string, refusal *surface.Reply) {
	if !sendsJSON(h.Values("Content-Type")) {
		return "", refuseText(msgContentType)
	}
	if !accepts(h.Values("Accept"), surface.TypeJSON, surface.TypeSSE) {
		return "", refuseText(msgAccept)
	}
	asked := h.Values("MCP-Protocol-Version")
	if len(asked) == 0 {
		return versionAssumed, nil
	}
	if len(asked) > 1 || !slices.Contains(versions, asked[0]) {
		reply := surface.RPCError(http.StatusBadRequest, "", versionError(strings.Join(asked, ", ")))
		return "", &reply
	}
	return asked[0], nil
}

func refuseText(text string) *surface.Reply {
	reply := surface.Text(http.StatusBadRequest, text)
	return &reply
}

func sendsJSON(lines []string) bool {
	if len(lines) != 1 {
		return false
	}
	kind, _, err := mime.ParseMediaType(lines[0])
	return err == nil && kind == surface.TypeJSON
}

// accepts tells whether every type is listed by name; wildcards list nothing, and
// parameters are passed over.
func accepts(lines []string, types ...string) bool {
	var listed []string
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			kind, _, _ := strings.Cut(item, ";")
			listed = append(listed, strings.ToLower(strings.TrimSpace(kind)))
		}
	}
	for _, t := range types {
		if !slices.Contains(listed, t) {
			return false
		}
	}
	return true
}

// maxEchoedVersion bounds, in bytes, how much of a version nobody speaks is told back.
const maxEchoedVersion = 64

// versionError names the supported versions twice: for people, and as the data that
// clients choose from.
func versionError(asked string) surface.Error {
	if len(asked) > maxEchoedVersion {
		asked = asked[:maxEchoedVersion]
	}
	data := []byte(`{"supported":[`)
	for i, v := range versions {
		if i > 0 {
			data = append(data, ',')
		}
		data = surface.AppendString(data, v)
	}
	data = append(data, `],"requested":`...)
	data = surface.AppendString(data, asked)
	return surface.Error{
		Code:    codeVersion,
		Message: fmt.Sprintf("unsupported protocol version %q (supported versions: %s)", asked, strings.Join(versions, ", ")),
		Data:    jsontext.Value(append(data, '}')),
	}
}

// event is the reply that carries one JSON text as one Server-Sent Event.
func event(body []byte) surface.Reply {
	const head, tail = "event: message\ndata: ", "\n\n"
	text := make([]byte, 0, len(head)+len(body)+len(tail))
	text = append(text, head...)
	text = append(text, body...)
	text = append(text, tail...)
	return surface.Reply{
		Status: http.StatusOK,
		Type:   surface.TypeSSE,
		Body:   text,
		Header: map[string]string{"Cache-Control": "no-cache"},
	}
}
