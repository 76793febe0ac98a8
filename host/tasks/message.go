package tasks

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// message is what message/send asks for.
type message struct {
	id, context, task, skill string
	// raw is the message as it was sent, canonical; digest is its hash.
	raw    []byte
	digest world.Ref
	texts  []string
	data   map[string]jsontext.Value // the members of all data parts
}

// parseMessage reads the params of message/send. Members it has no use for are passed over;
// configuration is one of them.
func parseMessage(params jsontext.Value) (*message, error) {
	p, err := object("params", params)
	if err != nil {
		return nil, err
	}
	if c := p["configuration"]; !absent(c) && c.Kind() != '{' {
		return nil, invalidParams("configuration must be an object")
	}
	if absent(p["message"]) {
		return nil, invalidParams("message is missing")
	}
	m := &message{data: make(map[string]jsontext.Value)}
	if m.raw, err = hashref.CanonicalObject(p["message"]); err != nil {
		return nil, invalidParams("message %s", surface.Reason(err))
	}
	m.digest = hashref.Sum(m.raw)
	fields, err := object("message", m.raw)
	if err != nil {
		return nil, err
	}
	for name, want := range map[string]string{"role": "user", "kind": "message"} {
		if got, ok := surface.String(fields[name]); !ok || got != want {
			return nil, invalidParams("message.%s must be %q", name, want)
		}
	}
	if m.id, err = identifier("message.messageId", fields["messageId"]); err != nil {
		return nil, err
	}
	for name, to := range map[string]*string{"contextId": &m.context, "taskId": &m.task} {
		if absent(fields[name]) {
			continue
		}
		if *to, err = identifier("message."+name, fields[name]); err != nil {
			return nil, err
		}
	}
	if err := m.readSkill(fields["metadata"]); err != nil {
		return nil, err
	}
	return m, m.readParts(fields["parts"])
}

func (m *message) readSkill(raw jsontext.Value) error {
	m.skill = DefaultSkill
	if absent(raw) {
		return nil
	}
	metadata, err := object("message.metadata", raw)
	if err != nil || absent(metadata["skillId"]) {
		return err
	}
	var ok bool
	if m.skill, ok = surface.String(metadata["skillId"]); !ok {
		return invalidParams("message.metadata.skillId must be a string")
	}
	return nil
}

func (m *message) readParts(raw jsontext.Value) error {
	parts, err := hashref.Items(raw, MaxParts)
	if err != nil || len(parts) == 0 {
		return invalidParams("message.parts must be an array of 1 to %d parts", MaxParts)
	}
	for _, p := range parts {
		part, err := object("a part", p)
		if err != nil {
			return err
		}
		switch kind, _ := surface.String(part["kind"]); kind {
		case "text":
			text, ok := surface.String(part["text"])
			if !ok {
				return invalidParams("a text part's text must be a string")
			}
			m.texts = append(m.texts, text)
		case "data":
			data, err := object("a data part's data", part["data"])
			if err != nil {
				return err
			}
			for name, v := range data {
				if _, twice := m.data[name]; twice {
					return invalidParams("two data parts have a member %q", name)
				}
				m.data[name] = v
			}
		case "file":
			return invalidParams("file parts are not supported; send text or data parts")
		default:
			return invalidParams(`a part's kind must be "text" or "data"`)
		}
	}
	return nil
}

// args are the arguments of a skill: the members of the data parts, and the text parts,
// joined by line ends, as the argument that the skill has for text.
func (m *message) args(d *world.Descriptor) ([]byte, error) {
	if len(m.texts) > 0 {
		if d.TextArgument == "" {
			return nil, invalidParams("skill %q takes no text; send its arguments in a data part", d.ID)
		}
		if _, twice := m.data[d.TextArgument]; twice {
			return nil, invalidParams("argument %q is given by a text part and by a data part", d.TextArgument)
		}
		m.data[d.TextArgument] = surface.AppendString(nil, strings.Join(m.texts, "\n"))
	}
	args, err := hashref.Marshal(m.data)
	if err != nil {
		return nil, invalidParams("the arguments %s", surface.Reason(err))
	}
	if len(args) > coordinator.MaxArgs {
		return nil, invalidParams("the arguments are larger than %d bytes", coordinator.MaxArgs)
	}
	return args, nil
}

// taskID reads the params of tasks/get and tasks/cancel.
func taskID(params jsontext.Value) (id string, members map[string]jsontext.Value, err error) {
	if members, err = object("params", params); err != nil {
		return "", nil, err
	}
	id, ok := surface.String(members["id"])
	if !ok {
		return "", nil, invalidParams("id must be a string")
	}
	return id, members, nil
}

func object(name string, raw jsontext.Value) (map[string]jsontext.Value, error) {
	if absent(raw) {
		return nil, invalidParams("%s must be a JSON object", name)
	}
	m, err := hashref.Members(raw)
	if err != nil {
		return nil, invalidParams("%s %s", name, surface.Reason(err))
	}
	return m, nil
}

func identifier(name string, raw jsontext.Value) (string, error) {
	id, ok := surface.String(raw)
	if !ok || id == "" || len(id) > MaxID || !utf8.ValidString(id) {
		return "", invalidParams("%s must be a string of 1 to %d bytes", name, MaxID)
	}
	return id, nil
}

func absent(v jsontext.Value) bool { return v == nil || v.Kind() == 'n' }
