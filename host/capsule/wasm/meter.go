package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Bounds of a module beside its bytes. They belong to the identity.
const (
	MaxLocals  = 50_000   // of one function, parameters included
	MaxMetered = 12 << 20 // bytes of a module after metering
	MaxNesting = 10_000   // blocks within blocks
)

// stepsExport is the name under which a metered module shows what is left of its steps.
const stepsExport = "world.steps"

// Costs of instructions, in steps; all others cost one, and what only gives structure none.
const (
	costCall  = 4    // and what the callee takes
	costHost  = 1000 // a call of WASI
	costGrow  = 1000
	bulkShift = 4 // a step for each 16 bytes of a bulk instruction
)

// meter rewrites a module so that what it does is the same on every machine. Every
// straight run of instructions first takes its number from a counter, and a function that
// is entered or a loop that goes round traps when the counter is below zero, so steps, not
// time, decide how long a program may run. Every floating-point result that is no number
// is made the canonical one, whose bits are otherwise the processor's. What is not of the
// features that this engine takes is refused. The rest is for the runtime to validate:
// indices that the rewriting could make valid are judged here.
func meter(module []byte, steps int64) ([]byte, error) {
	m := &metering{steps: steps}
	if err := m.read(module); err != nil {
		return nil, err
	}
	return m.write()
}

// Sections, in the order that modules have them in.
const (
	secCustom    = 0
	secType      = 1
	secImport    = 2
	secFunction  = 3
	secTable     = 4
	secMemory    = 5
	secGlobal    = 6
	secExport    = 7
	secStart     = 8
	secElement   = 9
	secCode      = 10
	secData      = 11
	secDataCount = 12
)

// rank is a section's place in the order, by its id.
var rank = [...]int{secType: 1, secImport: 2, secFunction: 3, secTable: 4, secMemory: 5, secGlobal: 6, secExport: 7, secStart: 8, secElement: 9, secDataCount: 10, secCode: 11, secData: 12}

type section struct {
	id   byte
	body []byte
}

type metering struct {
	steps    int64
	sections []section
	names    []byte   // the name section: for traces
	params   []int    // number of parameters, by type
	imported []uint32 // types of imported functions
	funcs    []uint32 // types of the module's own functions
	globals  uint32
}

var errCut = errors.New("the module is cut off")

func refuse(format string, args ...any) error { return fmt.Errorf(format, args...) }

func (m *metering) read(module []byte) error {
	if len(module) < 8 || string(module[:4]) != "\x00asm" {
		return errors.New("the source is not a WebAssembly module")
	}
	if binary.LittleEndian.Uint32(module[4:]) != 1 {
		return errors.New("the source is not a core module of version 1: components are not taken")
	}
	r := &reader{b: module[8:]}
	last := 0
	for len(r.b) > 0 {
		id := r.byte()
		body := r.bytes(r.u32())
		if r.err != nil {
			return r.err
		}
		switch {
		case id == secCustom:
			if c := (&reader{b: body}); string(c.bytes(c.u32())) == "name" && m.names == nil && c.err == nil {
				m.names = body
			}
			continue
		case int(id) >= len(rank):
			return refuse("section %d is not of the features that are taken", id)
		case rank[id] <= last:
			return refuse("section %d is out of order", id)
		case id == secStart:
			return errors.New("a command starts in _start: a start section is not taken")
		}
		last = rank[id]
		if err := m.note(id, body); err != nil {
			return err
		}
		m.sections = append(m.sections, section{id, body})
	}
	return nil
}

// note keeps what the rewriting has to know of a section.
func (m *metering) note(id byte, body []byte) error {
	r := &reader{b: body}
	switch id {
	case secType:
		for range r.count() {
			if form := r.byte(); form != 0x60 && r.err == nil {
				return refuse("type form %#x is not of the features that are taken", form)
			}
			params := r.count()
			for range params {
				r.valueType()
			}
			for range r.count() {
				r.valueType()
			}
			m.params = append(m.params, int(params))
		}
	case secImport:
		for range r.count() {
			from, name := string(r.bytes(r.u32())), string(r.bytes(r.u32()))
			if kind := r.byte(); kind != 0 && r.err == nil {
				return refuse("import %.40q.%.40q is no function", from, name)
			}
			m.imported = append(m.imported, r.u32())
		}
	case secFunction:
		for range r.count() {
			m.funcs = append(m.funcs, r.u32())
		}
	case secGlobal:
		m.globals = r.count()
	case secExport:
		for range r.count() {
			name := string(r.bytes(r.u32()))
			kind, index := r.byte(), r.u32()
			if kind == 3 && index >= m.globals && r.err == nil {
				return refuse("export %.40q names a global that is not there", name)
			}
			if name == stepsExport {
				return refuse("export %q is the engine's own name", name)
			}
		}
	}
	return r.err
}

// write gives the metered module.
func (m *metering) write() ([]byte, error) {
	out := []byte("\x00asm\x01\x00\x00\x00")
	wroteGlobal, wroteExport := false, false
	global := func(old []byte) {
		out = appendSection(out, secGlobal, addEntry(old, m.globals, m.counter()))
		wroteGlobal = true
	}
	for _, s := range m.sections {
		if rank[s.id] > rank[secGlobal] && !wroteGlobal {
			global(nil)
		}
		switch s.id {
		case secGlobal:
			global(s.body)
		case secExport:
			r := &reader{b: s.body}
			n := r.u32()
			entry := append(appendU32(nil, uint32(len(stepsExport))), stepsExport...)
			out = appendSection(out, secExport, addEntry(s.body, n, appendU32(append(entry, 3), m.globals)))
			wroteExport = true
		case secCode:
			code, err := m.code(s.body)
			if err != nil {
				return nil, err
			}
			out = appendSection(out, secCode, code)
		default:
			out = appendSection(out, s.id, s.body)
		}
	}
	if !wroteExport {
		return nil, errors.New("no _start: a command exports it")
	}
	if m.names != nil {
		out = appendSection(out, secCustom, m.names)
	}
	return out, nil
}

// counter is a mutable global that begins with the steps that a run has.
func (m *metering) counter() []byte {
	return append(appendI64([]byte{typeI64, 1, opI64Const}, m.steps), opEnd)
}

// addEntry appends one entry to a section that is a vector of n.
func addEntry(old []byte, n uint32, entry []byte) []byte {
	r := &reader{b: old}
	if old != nil {
		r.u32()
	}
	body := appendU32(nil, n+1)
	return append(append(body, r.b...), entry...)
}

func appendSection(out []byte, id byte, body []byte) []byte {
	return append(appendU32(append(out, id), uint32(len(body))), body...)
}

func (m *metering) code(body []byte) ([]byte, error) {
	r := &reader{b: body}
	n := r.count()
	if r.err == nil && int(n) != len(m.funcs) {
		return nil, refuse("%d functions are declared, and %d have code", len(m.funcs), n)
	}
	out := appendU32(nil, n)
	for i := range n {
		fn := &function{m: m, in: reader{b: r.bytes(r.u32())}}
		if r.err != nil {
			return nil, r.err
		}
		text, err := fn.rewrite(m.funcs[i])
		if err != nil {
			return nil, fmt.Errorf("function %d: %w", len(m.imported)+int(i), err)
		}
		out = append(appendU32(out, uint32(len(text))), text...)
		if len(out) > MaxMetered {
			return nil, refuse("the module is larger than %d bytes once its steps are counted", MaxMetered)
		}
	}
	return out, r.err
}
