package a2a

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// card is the agent card, in the field order of the wire.
type card struct {
	Name               string       `json:"name"`
	Description        string       `json:"description"`
	URL                string       `json:"url"`
	Version            string       `json:"version"`
	Capabilities       capabilities `json:"capabilities"`
	DefaultInputModes  []string     `json:"defaultInputModes"`
	DefaultOutputModes []string     `json:"defaultOutputModes"`
	Skills             []skill      `json:"skills"`
}

type capabilities struct {
	Streaming              bool `json:"streaming"`
	PushNotifications      bool `json:"pushNotifications"`
	StateTransitionHistory bool `json:"stateTransitionHistory"`
}

type skill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	Examples    []string `json:"examples"`
}

const (
	cardName        = "ailang-worldd"
	cardDescription = "Runs the published transitions that this session's grants admit. Send tasks/send to /a2a/ with the skill's id in metadata.skill_id and its arguments as one data part; every answered call is an entry of an append-only log."
)

// denial is what the card's REST envelope says of a kind.
type denial struct {
	status  int
	class   string
	message string // "" passes on the error's own
}

// sessionDenials says what the card answers when no session was found.
var sessionDenials = map[world.Kind]denial{
	world.KindSessionAbsent:  {http.StatusUnauthorized, "SessionAbsent", ""},
	world.KindSessionBad:     {http.StatusBadRequest, "InvalidSession", ""},
	world.KindSessionUnknown: {http.StatusUnauthorized, "SessionUnknown", ""},
	world.KindSessionExpired: {http.StatusUnauthorized, "SessionExpired", ""},
	world.KindTimeout:        lookupTimeout,
	world.KindDeadline:       lookupTimeout,
}

var (
	lookupTimeout = denial{http.StatusServiceUnavailable, "Timeout", "the credential lookup's deadline ended"}
	storeFailure  = denial{http.StatusInternalServerError, "Internal", "internal store failure"}
	viewDeadline  = denial{http.StatusGatewayTimeout, "ProjectionDeadlineExceeded", "the registry read's deadline ended"}
	viewFailure   = denial{http.StatusServiceUnavailable, "ProjectionUnavailable", "the registry could not be read; retry"}
)

// Card answers GET /.well-known/agent.json: what the session may call, as the registry
// stands at this moment.
func (h *Handler) Card() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			surface.NotAllowed("GET, HEAD").Write(w)
			return
		}
		reply := h.card(r)
		reply.Header = map[string]string{"Cache-Control": "no-store"}
		reply.Write(w)
	})
}

func (h *Handler) card(r *http.Request) (reply surface.Reply) {
	defer func() {
		if p := recover(); p != nil {
			reply = h.deny(storeFailure, surface.Panicked(p))
		}
	}()
	session, err := h.door.Session(r.Context(), r)
	if err != nil {
		d, ok := sessionDenials[surface.KindOf(err)]
		if !ok {
			d = storeFailure
		}
		return h.deny(d, err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), ViewDeadline)
	defer cancel()
	seen, err := surface.Within(ctx, 0, h.door.Late("card"), func(ctx context.Context) ([]*world.Descriptor, error) {
		return h.cfg.Skills.View(ctx, session)
	})
	if err != nil {
		d := viewFailure
		if timedOut(err) {
			d = viewDeadline
		}
		return h.deny(d, err)
	}
	body, err := json.Marshal(h.cardOf(seen))
	if err != nil {
		return h.deny(viewFailure, err)
	}
	return surface.JSON(http.StatusOK, body)
}

// cardOf is the card of what a session sees.
func (h *Handler) cardOf(seen []*world.Descriptor) card {
	c := card{
		Name:               cardName,
		Description:        cardDescription,
		URL:                h.cfg.url(),
		Version:            h.cfg.Version,
		DefaultInputModes:  []string{surface.TypeJSON},
		DefaultOutputModes: []string{surface.TypeJSON},
		Skills:             make([]skill, len(seen)),
	}
	for i, d := range seen {
		c.Skills[i] = skill{ID: d.ID, Name: d.Title, Description: d.Description, Tags: []string{}, Examples: []string{}}
		if d.Title == "" {
			c.Skills[i].Name = d.ID
		}
	}
	return c
}

// deny answers in the REST envelope.
func (h *Handler) deny(d denial, err error) surface.Reply {
	if surface.HasCause(err) {
		h.door.Log("card", err)
	}
	if d.message == "" {
		d.message = world.Message(err)
	}
	body := append([]byte(nil), `{"error":{"class":`...)
	body = surface.AppendString(body, d.class)
	body = append(body, `,"message":`...)
	body = surface.AppendString(body, d.message)
	return surface.JSON(d.status, append(body, "}}"...))
}
