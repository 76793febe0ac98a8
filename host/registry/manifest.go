package registry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Bounds of a manifest.
const (
	MaxManifest    = 4 << 20 // bytes of the manifest
	MaxSchema      = 256 << 10
	MaxTitle       = 256
	MaxDescription = 16 << 10
	MaxEffects     = 64 // declared effects of one transition
)

// Manifest is what is to be published: the manifest's text and the source files it names,
// by the paths it names them with. It can travel: nothing in it depends on a folder.
type Manifest struct {
	Text  []byte            `json:"text"`
	Files map[string][]byte `json:"files"`
}

// manifestItem is one element of the manifest's array.
type manifestItem struct {
	ID               string             `json:"id"`
	Title            string             `json:"title"`
	Description      string             `json:"description"`
	TransitionFnFile string             `json:"transitionFnFile"`
	TransitionFn     string             `json:"transitionFn"`
	InputSchema      jsontext.Value     `json:"inputSchema"`
	OutputSchema     jsontext.Value     `json:"outputSchema"`
	Access           *world.Need        `json:"access"`
	DeclaredEffects  []world.Need       `json:"declaredEffects"`
	SemanticsEpoch   int64              `json:"semanticsEpoch"`
	TextArgument     string             `json:"textArgument"`
	Annotations      *world.Annotations `json:"annotations"`
	RateClass        string             `json:"rateClass"`
}

func bad(format string, args ...any) error {
	return world.Errorf(world.KindBadRequest, "registry.Publish", format, args...)
}

// ReadManifest reads a manifest and the sources it names out of a folder. Paths are
// slash-separated, relative to the folder, and stay inside it; the caller hands in a file
// system that cannot be left.
func ReadManifest(dir fs.FS, name string) (Manifest, error) {
	text, err := readFile(dir, name, MaxManifest)
	if err != nil {
		return Manifest{}, err
	}
	items, err := parseManifest(text)
	if err != nil {
		return Manifest{}, err
	}
	m := Manifest{Text: text, Files: make(map[string][]byte)}
	for _, it := range items {
		if it.TransitionFnFile == "" {
			continue
		}
		if m.Files[it.TransitionFnFile], err = readFile(dir, it.TransitionFnFile, capsule.MaxSource); err != nil {
			return Manifest{}, bad("transition %q: transitionFnFile: %v", it.ID, err)
		}
	}
	return m, nil
}

// readFile reads at most max bytes of a regular file.
func readFile(dir fs.FS, name string, max int64) ([]byte, error) {
	st, err := fs.Stat(dir, name) // first: opening a FIFO waits for its writer
	if err != nil {
		return nil, bad("%v", err)
	}
	if !st.Mode().IsRegular() {
		return nil, bad("%s is not a regular file", name)
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, bad("%v", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, bad("%v", err)
	}
	if int64(len(b)) > max {
		return nil, world.Errorf(world.KindTooLarge, "registry.ReadManifest", "%s is larger than %d bytes", name, max)
	}
	return b, nil
}

// parseManifest decodes and checks all that can be checked without sources and engines.
func parseManifest(text []byte) ([]manifestItem, error) {
	var items []manifestItem
	if err := hashref.Decode(text, &items); err != nil {
		return nil, bad("manifest: %s", hashref.Explain(err, "it must be a JSON array of transitions"))
	}
	if len(items) == 0 {
		return nil, bad("manifest: holds no transition")
	}
	if len(items) > MaxTransitions {
		return nil, bad("manifest: holds more than %d transitions", MaxTransitions)
	}
	seen := make(map[string]bool, len(items))
	for i := range items {
		it := &items[i]
		if why := world.CheckTransitionID(it.ID); why != "" {
			return nil, bad("manifest[%d].id %q %s", i, it.ID, why)
		}
		if seen[it.ID] {
			return nil, bad("manifest[%d]: id %q stands twice", i, it.ID)
		}
		seen[it.ID] = true
		if err := it.check(); err != nil {
			return nil, bad("transition %q: %v", it.ID, err)
		}
	}
	return items, nil
}

func (it *manifestItem) check() error {
	switch {
	case it.Title == "" || len(it.Title) > MaxTitle:
		return fmt.Errorf("title must be 1 to %d bytes", MaxTitle)
	case len(it.Description) > MaxDescription:
		return fmt.Errorf("description must be at most %d bytes", MaxDescription)
	case (it.TransitionFnFile == "") == (it.TransitionFn == ""):
		return errors.New("exactly one of transitionFnFile and transitionFn must be given")
	case it.TransitionFnFile != "" && !fs.ValidPath(it.TransitionFnFile):
		return fmt.Errorf("transitionFnFile %q must be a slash-separated path inside the manifest's folder", it.TransitionFnFile)
	case it.Access == nil:
		return errors.New("access {effect, scope, cost} must be given")
	case len(it.DeclaredEffects) > MaxEffects:
		return fmt.Errorf("at most %d declaredEffects", MaxEffects)
	case it.RateClass != "" && it.RateClass != "default" && it.RateClass != "expensive":
		return fmt.Errorf("rateClass %q must be default or expensive", it.RateClass)
	}
	if it.TransitionFn != "" {
		if _, err := hashref.Parse(it.TransitionFn); err != nil {
			return fmt.Errorf("transitionFn %v", err)
		}
	}
	if err := it.Access.Check(); err != nil {
		return fmt.Errorf("access: %w", err)
	}
	if it.Access.Approval {
		return errors.New("access: approval belongs to a declared effect")
	}
	for i, n := range it.DeclaredEffects {
		if err := n.Check(); err != nil {
			return fmt.Errorf("declaredEffects[%d]: %w", i, err)
		}
		for _, m := range it.DeclaredEffects[:i] {
			if n.Approval != m.Approval && n.Effect == m.Effect && n.Scope == m.Scope && n.Cost == m.Cost {
				return fmt.Errorf("declaredEffects[%d]: %s is declared with approval and without", i, n.Effect)
			}
		}
	}
	var err error
	if it.InputSchema, err = checkSchema(it.InputSchema); err != nil {
		return fmt.Errorf("inputSchema: %w", err)
	}
	if it.OutputSchema, err = checkSchema(it.OutputSchema); err != nil {
		return fmt.Errorf("outputSchema: %w", err)
	}
	return it.checkText()
}

// checkText sees to it that a text part has an argument to fill that can be a text.
func (it *manifestItem) checkText() error {
	if it.TextArgument == "" {
		return nil
	}
	var schema struct {
		Properties map[string]struct {
			Type jsontext.Value `json:"type"`
		} `json:"properties"`
	}
	if err := hashref.DecodeKnown(it.InputSchema, &schema); err != nil {
		return fmt.Errorf("textArgument: the properties of inputSchema cannot be read: %w", err)
	}
	p, there := schema.Properties[it.TextArgument]
	if !there && schema.Properties != nil { // one that lists none takes any
		return fmt.Errorf("textArgument %q is no property of inputSchema", it.TextArgument)
	}
	if len(p.Type) > 0 && !bytes.Contains(p.Type, []byte(`"string"`)) {
		return fmt.Errorf("textArgument %q must be a string in inputSchema", it.TextArgument)
	}
	return nil
}

// checkSchema canonicalises a schema, which must be an object that compiles as JSON Schema
// on its own and describes an object.
func checkSchema(raw jsontext.Value) (jsontext.Value, error) {
	if raw == nil {
		return nil, errors.New("must be given")
	}
	if len(raw) > MaxSchema {
		return nil, fmt.Errorf("must be at most %d bytes", MaxSchema)
	}
	text, err := hashref.CanonicalObject(raw)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if t, ok := doc.(map[string]any)["type"]; ok && t != "object" {
		return nil, errors.New(`"type" must be "object": arguments and outputs are JSON objects`)
	}
	const where = "mem:///schema.json" // absolute: a relative one is looked up from the working folder, which may be gone
	c := jsonschema.NewCompiler()
	c.UseLoader(closedLoader{})
	if err := c.AddResource(where, doc); err != nil {
		return nil, fmt.Errorf("is no JSON Schema: %w", err)
	}
	if _, err := c.Compile(where); err != nil {
		return nil, fmt.Errorf("is no JSON Schema: %w", err)
	}
	return text, nil
}

// closedLoader keeps a published schema from reaching files or the network.
type closedLoader struct{}

func (closedLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("refers to %s: a schema must stand alone", url)
}

// extension is the ending that picks a source's engine.
func extension(file string) string { return path.Ext(file) }
