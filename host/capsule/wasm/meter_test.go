package wasm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/tetratelabs/wazero"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/worker"
	"ailang.dev/world/host/world"
)

func runModule(m *machine, module []byte) worker.Result {
	return m.Handle(context.Background(), worker.Request{Op: worker.OpRun, Source: capsule.NewSource(module), Input: []byte("{}")})
}

// TestSteps: what a program takes is what its instructions cost.
func TestSteps(t *testing.T) {
	fast, slow := testMachine(t, capsule.MaxSource), testMachine(t, 0)
	for name, tt := range map[string]struct {
		bodies [][]byte
		want   uint64
	}{
		"nothing":             {[][]byte{body("")}, 0},
		"structure":           {[][]byte{body("\x02\x40\x03\x40\x01\x0b\x0b")}, 0},
		"a value":             {[][]byte{body("\x41\x00\x1a")}, 2},
		"a branch taken":      {[][]byte{body("\x41\x01\x04\x40\x41\x00\x1a\x05\x41\x00\x41\x00\x1a\x1a\x0b")}, 4},
		"a branch not taken":  {[][]byte{body("\x41\x00\x04\x40\x41\x00\x1a\x05\x41\x00\x41\x00\x1a\x1a\x0b")}, 6},
		"what is jumped over": {[][]byte{body("\x02\x40\x0c\x00\x41\x00\x1a\x0b")}, 1},
		"return":              {[][]byte{body("\x0f\x41\x00\x1a")}, 1},
		"a call":              {[][]byte{body("\x10\x01"), body("\x41\x00\x1a")}, 6},
		// i = 10; do { i-- } while (i): two to begin with, and six a round.
		"ten rounds":       {[][]byte{append([]byte{1, 1, typeI32}, "\x41\x0a\x21\x00\x03\x40\x20\x00\x41\x01\x6b\x22\x00\x0d\x00\x0b\x0b"...)}, 2 + 10*5},
		"a fill":           {[][]byte{body("\x41\x00\x41\x00\x41\x80\x08\xfc\x0b\x00")}, 4 + 1024/16},
		"a copy":           {[][]byte{body("\x41\x00\x41\x20\x41\x8f\x08\xfc\x0a\x00\x00")}, 4 + 1039/16},
		"memory":           {[][]byte{body("\x41\x01\x40\x00\x1a")}, 2 + costGrow},
		"a float":          {[][]byte{body("\x43\x00\x00\x00\x00\x91\x1a")}, 3},
		"a long constant":  {[][]byte{body("\x42\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x1a")}, 2},
		"a trap":           {[][]byte{body("\x41\x00\x1a\x00")}, 3},
		"a trap in a call": {[][]byte{body("\x10\x01\x41\x00\x1a"), body("\x00")}, costCall + 3},
	} {
		for way, m := range map[string]*machine{"compiled": fast, "interpreted": slow} {
			if res := runModule(m, command(tt.bodies...)); res.Steps != tt.want || res.Status == worker.Convention {
				t.Errorf("%s, %s: %d steps, want %d: %+v", name, way, res.Steps, tt.want, res)
			}
		}
	}
}

// TestCanonicalNumbers: whatever gives a result that is no number gives the canonical one;
// what only moves bits leaves them.
func TestCanonicalNumbers(t *testing.T) {
	const odd64, odd32 = 0xfff800000000beef, 0xffc0beef
	f64 := func(bits uint64) string { return string(binary.LittleEndian.AppendUint64([]byte{opF64Const}, bits)) }
	f32 := func(bits uint32) string { return string(binary.LittleEndian.AppendUint32([]byte{opF32Const}, bits)) }
	var (
		canonical64 = "\xbd" + string(appendI64([]byte{opI64Const}, 0x7ff8000000000000)) + "\x51" // reinterpret, ==
		kept64      = "\xbd" + string(appendI64([]byte{opI64Const}, -1<<64+odd64)) + "\x51"
		flipped64   = "\xbd" + string(appendI64([]byte{opI64Const}, odd64&math.MaxInt64)) + "\x51"
		canonical32 = "\xbc" + string(appendI64([]byte{opI32Const}, 0x7fc00000)) + "\x46"
		kept32      = "\xbc" + string(appendI64([]byte{opI32Const}, -1<<32+odd32)) + "\x46"
		flipped32   = "\xbc" + string(appendI64([]byte{opI32Const}, odd32&math.MaxInt32)) + "\x46"
	)
	cases := map[string]string{
		"demote": f64(odd64) + "\xb6" + canonical32, "promote": f32(odd32) + "\xbb" + canonical64,
		"copysign64": f64(odd64) + f64(odd64) + "\xa6" + kept64, "copysign32": f32(odd32) + f32(odd32) + "\x98" + kept32,
		"abs64": f64(odd64) + "\x99" + flipped64, "neg64": f64(odd64) + "\x9a" + flipped64,
		"abs32": f32(odd32) + "\x8b" + flipped32, "neg32": f32(odd32) + "\x8c" + flipped32,
		"0/0": f64(0) + f64(0) + "\xa3" + canonical64, "inf-inf": f32(0x7f800000) + f32(0x7f800000) + "\x93" + canonical32,
		"sqrt(-1)": f64(0xbff0000000000000) + "\x9f" + canonical64,
	}
	for op := byte(opF32Ceil); op <= 0x91; op++ {
		cases[fmt.Sprintf("f32 %#x", op)] = f32(odd32) + string([]byte{op}) + canonical32
		cases[fmt.Sprintf("f64 %#x", op+14)] = f64(odd64) + string([]byte{op + 14}) + canonical64
	}
	for op := byte(0x92); op <= opF32Max; op++ {
		for i, pair := range [][2]string{{f32(odd32), f32(0x3f800000)}, {f32(0x3f800000), f32(odd32)}, {f32(odd32), f32(0x7fc00001)}} {
			cases[fmt.Sprintf("f32 %#x %d", op, i)] = pair[0] + pair[1] + string([]byte{op}) + canonical32
		}
		for i, pair := range [][2]string{{f64(odd64), f64(1 << 62)}, {f64(1 << 62), f64(odd64)}, {f64(odd64), f64(0x7ff8000000000001)}} {
			cases[fmt.Sprintf("f64 %#x %d", op+14, i)] = pair[0] + pair[1] + string([]byte{op + 14}) + canonical64
		}
	}
	for way, m := range map[string]*machine{"compiled": testMachine(t, capsule.MaxSource), "interpreted": testMachine(t, 0)} {
		for name, text := range cases {
			// Another value traps.
			res := runModule(m, command(body(text+"\x45\x04\x40\x00\x0b")))
			if res.Status != worker.BadOutput {
				t.Errorf("%s, %s: %+v", name, way, res)
			}
		}
	}
}

// TestLargeModule: what is too large to be compiled is interpreted, and gives the same.
func TestLargeModule(t *testing.T) {
	m := testMachine(t, compileBytes)
	small := built(t, "echo")
	pad := make([]byte, compileBytes)
	large := append(bytes.Clone(small), appendSection(nil, secCustom, append(sized([]byte("pad")), pad...))...)
	for _, tt := range []struct {
		module []byte
		want   wazero.Runtime
	}{{small, m.compiler}, {large, m.interpreter}} {
		src := capsule.NewSource(tt.module)
		if res := runModule(m, tt.module); string(res.Out) != "{}" {
			t.Errorf("%d bytes: %+v", len(tt.module), res)
		}
		if p, ok := m.loaded.Get(src.Ref); !ok || p.runtime != tt.want {
			t.Errorf("%d bytes: another runtime", len(tt.module))
		}
	}
}

// bare is a module without custom sections, as metering sees it.
func bare(t testing.TB, module []byte) []byte {
	t.Helper()
	m := &metering{}
	if err := m.read(module); err != nil {
		t.Fatal(err)
	}
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range m.sections {
		out = appendSection(out, s.id, s.body)
	}
	return out
}

// FuzzModule: whatever the bytes, checking and running them ends in a way that the contract
// knows, and the engine works on; and metering makes nothing valid that was not.
func FuzzModule(f *testing.F) {
	lang := language(f)
	for _, text := range lang.Broken {
		f.Add(text)
	}
	for _, text := range [][]byte{lang.Echo, lang.Length, lang.Compute.Source, lang.Remember.Source, lang.Fails.Source} {
		f.Add(text)
	}
	for _, p := range lang.Hostile {
		if len(p.Source) < 4096 {
			f.Add(p.Source)
		}
	}
	e := newEngine(f)
	f.Cleanup(func() {
		if err := e.Close(); err != nil {
			f.Error(err)
		}
	})
	plain, err := newRuntime(wazero.NewRuntimeConfigInterpreter())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, module []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*capsule.PhaseTimeout)
		defer cancel()
		// Metering is done here, too, so that what it comes upon leads the search.
		if metered, err := meter(module, StepLimit); err == nil && len(metered) > MaxMetered+2*len(module)+100 {
			t.Fatalf("%d bytes were metered to %d", len(module), len(metered))
		}
		src := capsule.NewSource(module)
		checked := e.Check(ctx, src)
		_, err := e.Run(ctx, src, []byte("{}"))
		for _, err := range []error{checked, err} {
			var known *world.Error
			if err == nil {
				continue
			}
			if !errors.As(err, &known) {
				t.Fatalf("%v", err)
			}
			switch known.Kind {
			case world.KindConvention, world.KindExecution, world.KindBadOutput, world.KindDeadline:
			default:
				t.Fatalf("kind %v: %v", known.Kind, err)
			}
		}
		if checked != nil {
			return
		}
		// It loads, so it has to be valid without the metering, too.
		compiled, err := plain.CompileModule(ctx, bare(t, module))
		if err != nil {
			t.Fatalf("metering made a module valid: %v", err)
		}
		if err := compiled.Close(ctx); err != nil {
			t.Fatal(err)
		}
	})
}
