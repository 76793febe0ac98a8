package starlark

import (
	"context"
	_ "embed"
	"fmt"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/worker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Dialect names the language as a whole: syntax options, builtins, json, std and limits.
// A golden vector that changes means a new one.
const Dialect = "world/starlark/v1"

//go:embed vectors.json
var vectorsFile []byte

// engineObject is the payload of the world/interpreter/v1 object: what a replay depends on.
// The version of the interpreter's module is not in it; the vectors are, and each binary
// proves itself against them.
type engineObject struct {
	Name    string      `json:"name"`
	Dialect string      `json:"dialect"`
	Std     world.Ref   `json:"std"`
	Vectors world.Ref   `json:"vectors"`
	Limits  limitObject `json:"limits"`
}

type limitObject struct {
	Steps       int64 `json:"steps"`
	SourceBytes int64 `json:"sourceBytes"`
	InputBytes  int64 `json:"inputBytes"`
	OutputBytes int64 `json:"outputBytes"`
	JSONDepth   int64 `json:"jsonDepth"`
	JSONDigits  int64 `json:"jsonDigits"`
	JSONBytes   int64 `json:"jsonBytes"`
	JSONStep    int64 `json:"jsonStep"`
}

func newIdentity() capsule.Identity {
	payload := hashref.MustMarshal(engineObject{
		Name:    "starlark",
		Dialect: Dialect,
		Std:     hashref.Sum(stdSource),
		Vectors: hashref.Sum(vectorsFile),
		Limits: limitObject{
			Steps:       StepLimit,
			SourceBytes: capsule.MaxSource,
			InputBytes:  capsule.MaxInput,
			OutputBytes: capsule.MaxOutput,
			JSONDepth:   MaxJSONDepth,
			JSONDigits:  MaxJSONDigits,
			JSONBytes:   MaxJSONBytes,
			JSONStep:    JSONStep,
		},
	})
	object := world.NewObject(world.SemInterpreter, "engine:starlark", payload)
	return capsule.Identity{Name: "starlark", Ref: object.Hash, Version: Dialect, Object: object}
}

// vector is one golden run: what a source makes of an input, and in how many steps, so that
// an interpreter that compiles differently, and would meet the step limit elsewhere, shows.
type vector struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Input  string `json:"input"`
	Output string `json:"output,omitempty"`
	Error  string `json:"error,omitempty"` // "convention", "execution" or "bad output"
	Steps  int64  `json:"steps"`
	// Slow keeps a vector for the tests alone; all others are also run by New.
	Slow bool `json:"slow,omitempty"`
}

func loadVectors() ([]vector, error) {
	var all []vector
	if err := hashref.Decode(vectorsFile, &all); err != nil {
		return nil, fmt.Errorf("vectors.json: %w", err)
	}
	return all, nil
}

var statusNames = map[worker.Status]string{
	worker.OK: "", worker.Convention: "convention", worker.Execution: "execution", worker.BadOutput: "bad output",
}

// reproduce runs a vector and gives it with what came out.
func (m *machine) reproduce(v vector) vector {
	res := m.run(context.Background(), capsule.NewSource([]byte(v.Source)), []byte(v.Input))
	v.Output, v.Error, v.Steps = string(res.Out), statusNames[res.Status], int64(res.Steps)
	return v
}

// proveVectors fails unless the quick vectors come out as they stand: a binary built with
// an interpreter that behaves otherwise must not claim this identity.
func (m *machine) proveVectors() error {
	all, err := loadVectors()
	if err != nil {
		return err
	}
	for _, v := range all {
		if v.Slow {
			continue
		}
		if got := m.reproduce(v); got != v {
			return fmt.Errorf("golden vector %q is not reproduced: got output %q, error %q, %d steps", v.Name, got.Output, got.Error, got.Steps)
		}
	}
	return nil
}
