package mcp

import (
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/world"
)

// maxRendered bounds how many tools are kept rendered.
const maxRendered = 4096

// toolCache keeps tools as the JSON that tools/list answers with. A descriptor keeps its
// pointer until it changes, so the pointer is the key, and while it is one it cannot come
// to mean another.
type toolCache struct {
	mu   sync.Mutex
	json map[*world.Descriptor][]byte
}

// rendered is a descriptor as a tool.
func (c *toolCache) rendered(d *world.Descriptor) ([]byte, error) {
	c.mu.Lock()
	kept := c.json[d]
	c.mu.Unlock()
	if kept != nil {
		return kept, nil
	}
	text, err := render(d)
	if err != nil {
		return nil, &world.Error{Op: "mcp.render", Kind: world.KindIntegrity, Subject: d.ID, Err: err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.json == nil || len(c.json) >= maxRendered {
		c.json = make(map[*world.Descriptor][]byte)
	}
	c.json[d] = text
	return text, nil
}

// tool is one element of tools/list, in the field order of the wire.
type tool struct {
	Name         string         `json:"name"`
	Title        string         `json:"title,omitempty"`
	Description  string         `json:"description,omitempty"`
	InputSchema  jsontext.Value `json:"inputSchema"`
	OutputSchema jsontext.Value `json:"outputSchema,omitempty"`
	Annotations  *hints         `json:"annotations,omitempty"`
}

// hints are a tool's annotations: its title, and what its manifest says of it.
type hints struct {
	Title string `json:"title,omitempty"`
	world.Annotations
}

func render(d *world.Descriptor) ([]byte, error) {
	t := tool{Name: registry.ToolName(d.ID), Title: d.Title, Description: d.Description}
	var err error
	if t.InputSchema, err = objectSchema(d.InputSchema, nil); err != nil {
		return nil, err
	}
	if len(d.OutputSchema) > 0 {
		var gains map[string]any
		if !d.Pure() {
			gains = worldSchema()
		}
		if t.OutputSchema, err = objectSchema(d.OutputSchema, gains); err != nil {
			return nil, err
		}
	}
	if d.Title != "" || d.Annotations != nil {
		t.Annotations = &hints{Title: d.Title}
		if d.Annotations != nil {
			t.Annotations.Annotations = *d.Annotations
		}
	}
	return json.Marshal(t)
}
