package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"ailang.dev/world/host/tasks"
)

// kind is one sort of request. Its number is in what it sends, and must be in the answer.
type kind struct {
	name    string
	surface string
	weight  int
	entry   bool // acknowledged, it is an entry of the log
	user    bool // sent by a user, not a session
	make    func(t *traffic, n uint64) request
}

// request is one of a kind.
type request struct {
	method, path, body string
	header             http.Header
	want               string // what the answer must hold
}

// kinds are all there is, in the order they are printed.
func kinds() []kind {
	return []kind{
		{"mcp-echo", "/mcp/", 16, true, false, (*traffic).mcpEcho},
		{"mcp-read", "/mcp/", 12, true, false, (*traffic).mcpRead},
		{"mcp-write", "/mcp/", 5, true, false, (*traffic).mcpWrite},
		{"a2a-echo", "/a2a/", 12, true, false, (*traffic).a2aEcho},
		{"task", tasks.Path, 5, true, true, (*traffic).task},
		{"mcp-list", "/mcp/", 10, false, false, (*traffic).mcpList},
		{"v1-page", "/v1", 8, false, false, (*traffic).page},
		{"v1-entry", "/v1", 14, false, false, (*traffic).entry},
		{"v1-object", "/v1", 12, false, false, (*traffic).object},
		{"workbench", "/workbench", 6, false, false, (*traffic).workbench},
	}
}

func usualMix() string {
	var all []string
	for _, k := range kinds() {
		all = append(all, fmt.Sprintf("%s=%d", k.name, k.weight))
	}
	return strings.Join(all, ",")
}

// maxWeight bounds a weight of a mix.
const maxWeight = 1_000_000

func parseMix(text string) ([]kind, error) {
	all := kinds()
	if text == "" {
		return all, nil
	}
	var mix []kind
	for part := range strings.SplitSeq(text, ",") {
		name, number, _ := strings.Cut(part, "=")
		w, err := strconv.Atoi(number)
		if err != nil || w < 1 || w > maxWeight {
			return nil, fmt.Errorf("of the mix %q: a part is kind=weight, the weight from 1 to %d", part, maxWeight)
		}
		found := false
		for _, k := range all {
			if k.name == name {
				k.weight, found = w, true
				mix = append(mix, k)
			}
		}
		if !found {
			return nil, fmt.Errorf("no kind %q: there are %s", name, usualMix())
		}
	}
	return mix, nil
}

// pick chooses by weight.
func (t *traffic) pick(n uint64) int {
	at := int(scatter(n) % uint64(t.weights))
	for i, k := range t.mix {
		if at -= k.weight; at < 0 {
			return i
		}
	}
	return len(t.mix) - 1
}

// scatter spreads numbers that follow one another (SplitMix64).
func scatter(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

func bearer(token string) http.Header {
	return http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token},
		"Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-06-18"}}
}

// who sends the call of a number, from among the sessions.
func (t *traffic) who(n uint64) int { return int(scatter(n+1) % uint64(len(t.sessions))) }

func (t *traffic) tool(n uint64, name, args, want string) request {
	return request{http.MethodPost, "/mcp/", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":` + args + `}}`,
		t.sessions[t.who(n)], want}
}

func (t *traffic) mcpEcho(n uint64) request {
	return t.tool(n, "tools_decho", fmt.Sprintf(`{"text":"%016x"}`, n), fmt.Sprintf(`"structuredContent":{"echo":{"text":"%016x"}}`, n))
}

func (t *traffic) mcpRead(n uint64) request {
	return t.tool(n, "workspace-read", fmt.Sprintf(`{"path":%q,"from":%d,"to":%d}`, readFile, 1+n%readLines, readLines), fmt.Sprintf(`"content":"line %04d\n`, 1+n%readLines))
}

// writtenFiles are how many files of a worktree are written, over and over.
const writtenFiles = 16

func (t *traffic) mcpWrite(n uint64) request {
	return t.tool(n, "workspace-write", fmt.Sprintf(`{"path":"out/%d.txt","content":"%016x\n"}`, n%writtenFiles, n), `"ok":true`)
}

func (t *traffic) mcpList(n uint64) request {
	return request{http.MethodPost, "/mcp/", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, t.sessions[t.who(n)], `"name":"workspace-read"`}
}

func (t *traffic) a2aEcho(n uint64) request {
	return request{http.MethodPost, "/a2a/", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"id":"%016x","metadata":{"skill_id":"tools.echo"},`+
		`"message":{"role":"user","parts":[{"type":"data","data":{"text":"%016x"}}]}}}`, n, n), t.sessions[t.who(n)], fmt.Sprintf(`"data":{"echo":{"text":"%016x"}}`, n)}
}

func (t *traffic) task(n uint64) request {
	return request{http.MethodPost, tasks.Path, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","kind":"message","messageId":"%016x",`+
		`"metadata":{"skillId":"demo.answer"},"parts":[{"kind":"text","text":"%016x"}]}}}`, n, n), t.users[int(scatter(n+1)%uint64(len(t.users)))], fmt.Sprintf(`"answer":"You asked: %016x"`, n)}
}

// pageLength is entries of a page of the log.
const pageLength = 50

// anyEntry is one of those that are there, never the genesis.
func (t *traffic) anyEntry() int64 { return 1 + rand.Int64N(max(t.known.Load()-1, 1)) }

func (t *traffic) read(path, want string) request {
	return request{http.MethodGet, path, "", t.sessions[0], want}
}

func (t *traffic) page(uint64) request {
	return t.read(fmt.Sprintf("/v1/log?from=%d&limit=%d", t.anyEntry(), pageLength), `{"items":[{"header":{"entryIndex":`)
}

func (t *traffic) entry(uint64) request {
	i := t.anyEntry()
	return t.read(fmt.Sprintf("/v1/log/%d", i), fmt.Sprintf(`"entryIndex":%d,`, i))
}

func (t *traffic) object(n uint64) request {
	return t.read("/v1/objects/"+t.objects[scatter(n)%uint64(len(t.objects))]+"?payload=true", `"payload":"`)
}

func (t *traffic) workbench(uint64) request {
	return t.read(fmt.Sprintf("/workbench?entry=%d", t.anyEntry()), "<svg")
}
