package wasm

import (
	"context"
	"embed"
	"fmt"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/worker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Dialect names what a program finds as a whole: features, WASI, clocks, chance, steps and
// limits. A golden vector that changes means a new one.
const Dialect = "world/wasm/v1"

// The vectors are modules, and a list of what they make of their inputs.
//
//go:embed vectors/vectors.json vectors/*.wasm
var vectorFiles embed.FS

const vectorList = "vectors/vectors.json"

// engineObject is the payload of the world/interpreter/v1 object: what a replay depends on.
// The version of the runtime's module is not in it; the vectors are, and each binary proves
// itself against them.
type engineObject struct {
	Name     string      `json:"name"`
	Dialect  string      `json:"dialect"`
	Features []string    `json:"features"`
	Vectors  world.Ref   `json:"vectors"`
	Limits   limitObject `json:"limits"`
}

type limitObject struct {
	Steps       int64 `json:"steps"`
	MemoryPages int64 `json:"memoryPages"`
	SourceBytes int64 `json:"sourceBytes"`
	InputBytes  int64 `json:"inputBytes"`
	OutputBytes int64 `json:"outputBytes"`
	Locals      int64 `json:"locals"`
	Nesting     int64 `json:"nesting"`
	Metered     int64 `json:"meteredBytes"`
}

func newIdentity() capsule.Identity {
	list, err := vectorFiles.ReadFile(vectorList)
	if err != nil {
		panic(err) // it is embedded
	}
	payload := hashref.MustMarshal(engineObject{
		Name:     "wasm",
		Dialect:  Dialect,
		Features: []string{"bulk-memory", "multi-value", "mutable-globals", "nontrapping-fptoint", "reference-types", "sign-ext"},
		Vectors:  hashref.Sum(list),
		Limits: limitObject{
			Steps: StepLimit, MemoryPages: MemoryPages, SourceBytes: capsule.MaxSource, InputBytes: capsule.MaxInput,
			OutputBytes: capsule.MaxOutput, Locals: MaxLocals, Nesting: MaxNesting, Metered: MaxMetered,
		},
	})
	object := world.NewObject(world.SemInterpreter, "engine:wasm", payload)
	return capsule.Identity{Name: "wasm", Ref: object.Hash, Version: Dialect, Object: object}
}

// vector is one golden run: what a module makes of an input, and in how many steps.
type vector struct {
	Name   string    `json:"name"`
	File   string    `json:"file"`   // in vectors/
	Module world.Ref `json:"module"` // its hash
	Input  string    `json:"input"`
	Output string    `json:"output,omitempty"`
	Error  string    `json:"error,omitempty"` // "convention", "execution" or "bad output"
	Steps  int64     `json:"steps"`
	// Slow keeps a vector for the tests alone; all others are also run by New.
	Slow bool `json:"slow,omitempty"`
}

func loadVectors() ([]vector, error) {
	list, err := vectorFiles.ReadFile(vectorList)
	if err != nil {
		return nil, err
	}
	var all []vector
	if err := hashref.Decode(list, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", vectorList, err)
	}
	return all, nil
}

var statusNames = map[worker.Status]string{
	worker.OK: "", worker.Convention: "convention", worker.Execution: "execution", worker.BadOutput: "bad output",
}

// reproduce runs a vector and gives it with what came out.
func (m *machine) reproduce(v vector) (vector, error) {
	text, err := vectorFiles.ReadFile("vectors/" + v.File)
	if err != nil {
		return vector{}, err
	}
	src := capsule.NewSource(text)
	res := m.Handle(context.Background(), worker.Request{Op: worker.OpRun, Source: src, Input: []byte(v.Input)})
	v.Module, v.Output, v.Error, v.Steps = src.Ref, string(res.Out), statusNames[res.Status], int64(res.Steps)
	return v, nil
}

// proveVectors fails unless the quick vectors come out as they stand: a binary built with
// a runtime that behaves otherwise must not claim this identity.
func proveVectors() (err error) {
	all, err := loadVectors()
	if err != nil {
		return err
	}
	m, err := newMachine(compileBytes)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := m.close(); err == nil {
			err = cerr
		}
	}()
	return m.prove(all)
}

func (m *machine) prove(all []vector) error {
	for _, v := range all {
		if v.Slow {
			continue
		}
		got, err := m.reproduce(v)
		if err != nil {
			return err
		}
		if got != v {
			return fmt.Errorf("golden vector %q is not reproduced: got output %q, error %q, %d steps", v.Name, got.Output, got.Error, got.Steps)
		}
	}
	return nil
}
