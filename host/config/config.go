// Package config reads the operator's configuration file: YAML, strict, every mistake told
// with its line and what to do. It owns what may stand in the file and in which words; what
// the values mean is checked by the packages that use them. It opens no file and knows
// nothing of flags. Each section is one file here: a struct with the names that stand in the
// YAML, and a method that builds what the section is for. Answers spec/13-exec.md,
// spec/19-tasks.md, spec/20-calendar.md and spec/22-skills.md.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/handlers/exec"
	"ailang.dev/world/host/handlers/model"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/world"
)

// MaxSize bounds the file, in bytes.
const MaxSize = 1 << 20

// Config is what a file says. The zero value is that of an empty one.
type Config struct {
	Profiles []exec.Profile
	Policy   policy.Config
	Plans    authority.Plans // nil if the file names none
	Issuers  []authority.IssuerConfig
	Models   []model.Model // nil if the file names none
	// Calendars are the paths of an operator's liturgical calendars.
	Calendars []string
}

// document is the whole file.
type document struct {
	Exec      execSection      `yaml:"exec"`
	Policy    policySection    `yaml:"policy"`
	Plans     plansSection     `yaml:"plans"`
	Issuers   []issuer         `yaml:"issuers"`
	Models    modelsSection    `yaml:"models"`
	Calendars calendarsSection `yaml:"calendars"`
}

// Read reads a file's text. name is what errors call the file. An error is KindBadRequest,
// its message for the operator.
func Read(name string, text []byte) (c *Config, err error) {
	src := &source{name: name}
	defer func() {
		if p := recover(); p != nil { // the library panics on some texts, as a tag without a value
			c, err = nil, src.error(0, "cannot be read as YAML: %v", p)
		}
	}()
	if len(text) > MaxSize {
		return nil, src.error(0, "is larger than %d bytes", MaxSize)
	}
	var d document
	in := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	switch err := in.Decode(&d); {
	case errors.Is(err, io.EOF): // nothing, or comments alone
		return &Config{}, nil
	case err != nil:
		return nil, src.yaml(err)
	}
	if err := in.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, src.error(0, "holds more than one document; leave one")
	}
	if src.tree, err = parser.ParseBytes(text, 0); err != nil {
		return nil, src.yaml(err)
	}
	c = &Config{}
	if c.Profiles, err = d.Exec.build(src); err != nil {
		return nil, err
	}
	if c.Policy, err = d.Policy.build(src); err != nil {
		return nil, err
	}
	if c.Plans, err = d.Plans.build(src); err != nil {
		return nil, err
	}
	if c.Issuers, err = buildIssuers(src, d.Issuers, c.Plans); err != nil {
		return nil, err
	}
	if c.Models, err = d.Models.build(src); err != nil {
		return nil, err
	}
	if c.Calendars, err = d.Calendars.build(src); err != nil {
		return nil, err
	}
	return c, nil
}

// source finds the lines that errors are about.
type source struct {
	name string
	tree *ast.File
}

func (s *source) error(line int, format string, args ...any) error {
	at := s.name
	if line > 0 {
		at += ":" + strconv.Itoa(line)
	}
	return &world.Error{Op: "config.Read", Kind: world.KindBadRequest, Subject: s.name, Msg: at + ": " + fmt.Sprintf(format, args...)}
}

// yaml makes an error of the library ours.
func (s *source) yaml(err error) error {
	var at yaml.Error
	if !errors.As(err, &at) {
		return s.error(0, "%v", err)
	}
	line, text := 0, at.GetMessage()
	if t := at.GetToken(); t != nil && t.Position != nil {
		line = t.Position.Line
	}
	var unknown *yaml.UnknownFieldError
	if errors.As(err, &unknown) {
		text += "; the keys are listed in docs/configuration.md"
	}
	return s.error(line, "%s", text)
}

// at is an error about the value at a path. The line is that of the nearest part of the path
// that stands in the file.
func (s *source) at(path []string, format string, args ...any) error {
	text := strings.Join(path, ".") + ": " + fmt.Sprintf(format, args...)
	for n := len(path); n > 0; n-- {
		if line := s.line(path[:n]); line > 0 {
			return s.error(line, "%s", text)
		}
	}
	return s.error(0, "%s", text)
}

func (s *source) line(path []string) int {
	b := (&yaml.PathBuilder{}).Root()
	for _, p := range path {
		if i, err := strconv.ParseUint(p, 10, 32); err == nil {
			b = b.Index(uint(i))
		} else {
			b = b.Child(p)
		}
	}
	node, err := b.Build().FilterFile(s.tree)
	if err != nil || node == nil || node.GetToken() == nil {
		return 0
	}
	return node.GetToken().Position.Line
}

// whole is a number that is written as one: the library would cut 2.9 to 2.
type whole int

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (w *whole) UnmarshalYAML(node ast.Node) error {
	n, ok := node.(*ast.IntegerNode)
	if ok {
		var v int
		if err := yaml.NodeToValue(n, &v); err == nil {
			*w = whole(v)
			return nil
		}
	}
	return &yaml.SyntaxError{Message: fmt.Sprintf("%q must be a whole number", node.String()), Token: node.GetToken()}
}

// units are the ends of a size.
var units = []struct {
	name string
	n    int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}}

// size reads a number of bytes: 512MiB, 2GiB, 1048576.
func size(text string) (int64, error) {
	digits, unit := text, int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			digits, unit = strings.TrimSpace(rest), u.n
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 1 || n > (1<<50)/unit {
		return 0, fmt.Errorf("%q is no size; write for example 512MiB or 2GiB", text)
	}
	return n * unit, nil
}

// duration reads a length of time: 90s, 5m.
func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is no length of time; write for example 90s or 5m", text)
	}
	return d, nil
}
