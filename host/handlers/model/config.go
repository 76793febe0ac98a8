package model

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The backends.
const (
	Extractive = "extractive" // picks sentences of the passages; no network, always the same
	OpenAI     = "openai"     // any endpoint that speaks the chat completions of OpenAI
)

// Bounds of a model's configuration, and what holds without a word.
const (
	MaxModels      = 64
	MaxTimeout     = 110 * time.Second
	DefaultTimeout = 60 * time.Second
	MaxAnswer      = 1 << 20 // bytes of an answer's text
	DefaultAnswer  = 64 << 10
	DefaultTokens  = 1024
	MaxHeaders     = 16
	MaxHeader      = 4 << 10 // bytes of a header's value
	maxName        = 256     // bytes of an endpoint's name for a model
)

// Model is one model as the operator configures it. Fields without a meaning for its backend
// are zero.
type Model struct {
	Name    string
	Backend string // Extractive or OpenAI
	// URL is the endpoint's base, "/chat/completions" left out. Plain http is for this machine
	// alone.
	URL string
	// Model is what the endpoint calls it.
	Model string
	// KeyFile is the absolute path of a file with the key, read for each request; "" is none.
	KeyFile   string
	Timeout   time.Duration // of a request; 0 is DefaultTimeout
	MaxAnswer int           // bytes of the text; 0 is DefaultAnswer
	MaxTokens int           // of an answer; 0 is DefaultTokens
	// TokensField is the name under which the endpoint is told MaxTokens; "" is "max_tokens".
	TokensField string
	// Temperature is sent if it is not nil.
	Temperature *float64
	Headers     map[string]string
}

// FieldError is what is wrong with one field, by its name in the configuration file.
type FieldError struct{ Field, Why string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Why }

func wrong(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

var (
	modelName   = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
	headerName  = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	headerValue = regexp.MustCompile(`^[\x20-\x7e]*$`)
)

// taken are headers that are the client's own.
var taken = []string{"authorization", "host", "content-length", "content-type", "content-encoding", "accept", "accept-encoding",
	"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect", "proxy-authorization", "proxy-connection"}

// Check tells what is wrong with a model, a FieldError, without looking at this machine.
func (m *Model) Check() error {
	if !modelName.MatchString(m.Name) {
		return wrong("name", "%q must be 1 to 64 of a-z, 0-9 and -, and not begin with -", m.Name)
	}
	if m.Backend == Extractive {
		if m.URL != "" || m.Model != "" || m.KeyFile != "" || m.Headers != nil || m.Temperature != nil || m.TokensField != "" || m.Timeout != 0 || m.MaxTokens != 0 {
			return wrong("backend", "an extractive model has no other key than max_answer")
		}
		return m.checkBounds()
	}
	if m.Backend != OpenAI {
		return wrong("backend", "%q must be %s or %s", m.Backend, OpenAI, Extractive)
	}
	if err := checkURL(m.URL); err != nil {
		return err
	}
	switch {
	case m.Model == "" || len(m.Model) > maxName || !headerValue.MatchString(m.Model):
		return wrong("model", "must be what the endpoint calls the model, 1 to %d characters", maxName)
	case m.KeyFile != "" && !filepath.IsAbs(m.KeyFile):
		return wrong("key_file", "%q must be an absolute path", m.KeyFile)
	case m.TokensField != "" && m.TokensField != "max_tokens" && m.TokensField != "max_completion_tokens":
		return wrong("tokens_field", "%q must be max_tokens or max_completion_tokens", m.TokensField)
	case m.Temperature != nil && !(*m.Temperature >= 0 && *m.Temperature <= 2):
		return wrong("temperature", "must be from 0 to 2")
	}
	if err := m.checkBounds(); err != nil {
		return err
	}
	return m.checkHeaders()
}

func (m *Model) checkBounds() error {
	switch {
	case m.Timeout < 0 || m.Timeout > MaxTimeout:
		return wrong("timeout", "must be at most %v", MaxTimeout)
	case m.MaxAnswer < 0 || m.MaxAnswer > MaxAnswer:
		return wrong("max_answer", "must be at most %d bytes", MaxAnswer)
	case m.MaxTokens < 0 || m.MaxTokens > MaxTokens:
		return wrong("max_tokens", "must be from 1 to %d", MaxTokens)
	}
	return nil
}

func (m *Model) checkHeaders() error {
	if len(m.Headers) > MaxHeaders {
		return wrong("headers", "must be at most %d", MaxHeaders)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		v := m.Headers[name]
		if !headerName.MatchString(name) || slices.Contains(taken, strings.ToLower(name)) || len(v) > MaxHeader || !headerValue.MatchString(v) {
			return wrong("headers", "%q cannot be set so", name)
		}
	}
	return nil
}

// checkURL admits https, and http to a loopback address.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Opaque != "" {
		return wrong("url", "must be https://host[:port]/path without user, query and fragment, for example https://api.example.org/v1")
	}
	switch {
	case u.Scheme == "https":
	case u.Scheme != "http":
		return wrong("url", "must begin with https://, or http:// to this machine")
	case !loopback(u.Hostname()):
		return wrong("url", "plain http is for this machine alone (127.0.0.1, ::1, localhost); use https")
	}
	return nil
}

// loopback tells whether a host's name is one of this machine.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// filled has what holds without a word put in.
func (m Model) filled() Model {
	if m.Timeout == 0 {
		m.Timeout = DefaultTimeout
	}
	if m.MaxAnswer == 0 {
		m.MaxAnswer = DefaultAnswer
	}
	if m.MaxTokens == 0 {
		m.MaxTokens = DefaultTokens
	}
	if m.TokensField == "" {
		m.TokensField = "max_tokens"
	}
	return m
}

// called is the model's name in answers.
func (m *Model) called() string {
	if m.Backend == Extractive {
		return Extractive
	}
	return m.Model
}
