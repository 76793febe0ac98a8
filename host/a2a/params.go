package a2a

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// send is what tasks/send asks for.
type send struct {
	task  string
	skill string
	pin   world.Ref
	args  []byte // canonical, an object
}

// errShape says that params are not those of tasks/send. The wire has one text for all
// that may be wrong with them.
var errShape = errors.New("params are not those of tasks/send")

// parseSend reads the params of tasks/send. Members it has no use for are passed over; one
// that is repeated, at any level, is refused.
func parseSend(raw jsontext.Value) (send, error) {
	params, err := hashref.Members(raw)
	if err != nil {
		return send{}, err
	}
	var s send
	var ok bool
	if s.task, ok = surface.String(params["id"]); !ok || !coordinator.ValidTask(s.task) {
		return send{}, errShape
	}
	if err := s.readMetadata(params["metadata"]); err != nil {
		return send{}, err
	}
	if err := s.readMessage(params["message"]); err != nil {
		return send{}, err
	}
	return s, nil
}

func (s *send) readMetadata(raw jsontext.Value) error {
	metadata, err := hashref.Members(raw)
	if err != nil {
		return err
	}
	var ok bool
	if s.skill, ok = surface.String(metadata["skill_id"]); !ok {
		return errShape
	}
	pin, pinned := metadata["transition_fn"]
	if !pinned {
		return nil
	}
	text, ok := surface.String(pin)
	if !ok {
		return errShape
	}
	s.pin, err = hashref.Parse(text)
	return err
}

// readMessage takes the arguments out of the one part that a message may have.
func (s *send) readMessage(raw jsontext.Value) error {
	message, err := hashref.Members(raw)
	if err != nil {
		return err
	}
	parts, err := hashref.Items(message["parts"], 1)
	if err != nil {
		return err
	}
	if len(parts) != 1 {
		return errShape
	}
	part, err := hashref.Members(parts[0])
	if err != nil {
		return err
	}
	if kind, ok := surface.String(part["type"]); !ok || kind != "data" {
		return errShape
	}
	s.args, err = hashref.CanonicalObject(part["data"])
	return err
}
