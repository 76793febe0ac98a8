package wasm

import "errors"

// Instructions that the rewriting writes or tells apart.
const (
	opUnreachable  = 0x00
	opNop          = 0x01
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelect       = 0x1b
	opSelectTyped  = 0x1c
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableGet     = 0x25
	opTableSet     = 0x26
	opFirstMemory  = 0x28
	opLastMemory   = 0x3e
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opFirstNumeric = 0x45
	opLastNumeric  = 0xc4
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opPrefixed     = 0xfc
	opVector       = 0xfd

	opI64LtS     = 0x53
	opF32Eq      = 0x5b
	opF64Eq      = 0x61
	opI64Sub     = 0x7d
	opI64ShrU    = 0x88
	opF32Ceil    = 0x8d
	opF32Max     = 0x97
	opF64Ceil    = 0x9b
	opF64Max     = 0xa5
	opI64Extend  = 0xad // i64.extend_i32_u
	opF32Demote  = 0xb6
	opF64Promote = 0xbb

	// After opPrefixed.
	subLastTrunc  = 7
	subMemoryInit = 8
	subDataDrop   = 9
	subMemoryCopy = 10
	subMemoryFill = 11
	subTableInit  = 12
	subElemDrop   = 13
	subTableCopy  = 14
	subTableGrow  = 15
	subTableSize  = 16
	subTableFill  = 17

	typeI32   = 0x7f
	typeI64   = 0x7e
	typeF32   = 0x7d
	typeF64   = 0x7c
	typeFunc  = 0x70
	typeExt   = 0x6f
	typeEmpty = 0x40
)

var errNumber = errors.New("a number is malformed")

// temp is a local that the rewriting adds to a function.
type temp struct {
	kind  byte
	index uint32 // once used
	used  bool
}

// function rewrites one function's body.
type function struct {
	m      *metering
	in     reader
	out    []byte // the instructions that are done
	run    []byte // a straight run of instructions that is not yet paid for
	cost   int64  // its steps
	head   bool   // the run begins a function or a loop
	locals uint32 // parameters and locals that the module has
	depth  int
	temps  [3]temp
	next   uint32 // index of the next temp
}

// rewrite gives the body: locals, then instructions.
func (f *function) rewrite(typ uint32) ([]byte, error) {
	if int(typ) >= len(f.m.params) {
		return nil, refuse("type %d is not there", typ)
	}
	groups := f.in.count()
	declared := f.in.b
	total := uint64(f.m.params[typ])
	for range groups {
		total += uint64(f.in.u32())
		f.in.valueType()
		if total > MaxLocals {
			return nil, refuse("more than %d locals", MaxLocals)
		}
	}
	declared = declared[:len(declared)-len(f.in.b)]
	if f.in.err != nil {
		return nil, f.in.err
	}
	f.locals, f.next = uint32(total), uint32(total)
	f.temps = [3]temp{{kind: typeI32}, {kind: typeF32}, {kind: typeF64}}
	f.depth, f.head = 1, true
	for f.depth > 0 {
		if err := f.instruction(); err != nil {
			return nil, err
		}
	}
	f.flush(false)
	if len(f.in.b) > 0 {
		return nil, errors.New("its code goes on behind its end")
	}
	return append(f.declare(groups, declared), f.out...), nil
}

// declare writes the locals with the temps behind them, in the order of their indices.
func (f *function) declare(groups uint32, declared []byte) []byte {
	body := appendU32(nil, groups+f.next-f.locals)
	body = append(body, declared...)
	for i := f.locals; i < f.next; i++ {
		for _, t := range f.temps {
			if t.used && t.index == i {
				body = append(body, 1, t.kind)
			}
		}
	}
	return body
}

// temp is the index of the local of a type, which is added when first asked for.
func (f *function) temp(kind byte) uint32 {
	for i := range f.temps {
		t := &f.temps[i]
		if t.kind != kind {
			continue
		}
		if !t.used {
			t.used, t.index = true, f.next
			f.next++
		}
		return t.index
	}
	panic("no temp of that type")
}

// flush writes the run that is done behind what pays for it. The next one is a head or not.
func (f *function) flush(head bool) {
	counter := func(op byte) { f.out = appendU32(append(f.out, op), f.m.globals) }
	if f.cost > 0 {
		counter(opGlobalGet)
		f.out = append(appendI64(append(f.out, opI64Const), f.cost), opI64Sub)
		counter(opGlobalSet)
	}
	if f.head {
		counter(opGlobalGet)
		f.out = append(f.out, opI64Const, 0, opI64LtS, opIf, typeEmpty, opUnreachable, opEnd)
	}
	f.out = append(f.out, f.run...)
	f.run, f.cost, f.head = f.run[:0], 0, head
}

// instruction reads one and adds it to the run, which ends where control may come or go.
func (f *function) instruction() error {
	start := f.in.b
	op := f.in.byte()
	cost := int64(1)
	before, after := []byte(nil), []byte(nil)
	ends, head := false, false
	switch {
	case op == opBlock, op == opLoop, op == opIf:
		f.in.blockType()
		if f.depth++; f.depth > MaxNesting {
			return refuse("more than %d nested blocks", MaxNesting)
		}
		ends, head = op != opBlock, op == opLoop
		if op != opIf {
			cost = 0
		}
	case op == opElse:
		ends, cost = true, 0
	case op == opEnd:
		f.depth--
		ends, cost = true, 0
	case op == opNop:
		cost = 0
	case op == opBr, op == opBrIf:
		f.in.u32()
		ends = true
	case op == opBrTable:
		for range f.in.count() {
			f.in.u32()
		}
		f.in.u32()
		ends = true
	case op == opReturn, op == opUnreachable:
		ends = true
	case op == opCall:
		cost = costCall
		if f.in.u32() < uint32(len(f.m.imported)) {
			cost = costHost
		}
	case op == opCallIndirect:
		f.in.u32()
		f.in.u32()
		cost = costCall
	case op == opDrop, op == opSelect:
	case op == opSelectTyped:
		for range f.in.count() {
			f.in.valueType()
		}
	case op == opLocalGet, op == opLocalSet, op == opLocalTee:
		if i := f.in.u32(); i >= f.locals {
			return refuse("local %d is not there", i)
		}
	case op == opGlobalGet, op == opGlobalSet:
		if i := f.in.u32(); i >= f.m.globals {
			return refuse("global %d is not there", i)
		}
	case op == opTableGet, op == opTableSet, op == opRefFunc:
		f.in.u32()
	case op >= opFirstMemory && op <= opLastMemory:
		f.in.u32()
		f.in.u32()
	case op == opMemorySize:
		f.in.zero()
	case op == opMemoryGrow:
		f.in.zero()
		cost = costGrow
	case op == opI32Const:
		f.in.skip(5)
	case op == opI64Const:
		f.in.skip(10)
	case op == opF32Const:
		f.in.bytes(4)
	case op == opF64Const:
		f.in.bytes(8)
	case op >= opFirstNumeric && op <= opLastNumeric:
		after = f.canonical(op)
	case op == opRefNull:
		f.in.refType()
	case op == opRefIsNull:
	case op == opPrefixed:
		var err error
		if before, err = f.prefixed(); err != nil {
			return err
		}
	case op == opVector:
		return errors.New("vector instructions are not of the features that are taken: build without simd128")
	default:
		return refuse("instruction %#x is not of the features that are taken", op)
	}
	if f.in.err != nil {
		return f.in.err
	}
	f.run = append(append(append(f.run, before...), start[:len(start)-len(f.in.b)]...), after...)
	f.cost += cost
	if ends {
		f.flush(head)
	}
	return nil
}

// canonical is what makes an instruction's result, if it is no number, the one with the
// canonical bits; nil for instructions whose result has the same bits everywhere.
func (f *function) canonical(op byte) []byte {
	switch {
	case op >= opF32Ceil && op <= opF32Max, op == opF32Demote:
		t := f.temp(typeF32)
		b := appendU32([]byte{opLocalTee}, t)
		b = append(b, opF32Const, 0, 0, 0xc0, 0x7f, opLocalGet)
		b = append(appendU32(b, t), opLocalGet)
		return append(appendU32(b, t), opF32Eq, opSelect)
	case op >= opF64Ceil && op <= opF64Max, op == opF64Promote:
		t := f.temp(typeF64)
		b := appendU32([]byte{opLocalTee}, t)
		b = append(b, opF64Const, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f, opLocalGet)
		b = append(appendU32(b, t), opLocalGet)
		return append(appendU32(b, t), opF64Eq, opSelect)
	}
	return nil
}

// prefixed reads the rest of a prefixed instruction, and gives what pays for those that
// take longer the more they are asked to do. Their amount is the last operand.
func (f *function) prefixed() ([]byte, error) {
	shift := byte(0)
	switch sub := f.in.u32(); {
	case sub <= subLastTrunc:
		return nil, nil
	case sub == subDataDrop, sub == subElemDrop, sub == subTableSize:
		f.in.u32()
		return nil, nil
	case sub == subMemoryInit:
		f.in.u32()
		f.in.zero()
		shift = bulkShift
	case sub == subMemoryCopy:
		f.in.zero()
		f.in.zero()
		shift = bulkShift
	case sub == subMemoryFill:
		f.in.zero()
		shift = bulkShift
	case sub == subTableInit, sub == subTableCopy:
		f.in.u32()
		f.in.u32()
	case sub == subTableGrow, sub == subTableFill:
		f.in.u32()
	default:
		return nil, refuse("instruction %#x %d is not of the features that are taken", opPrefixed, sub)
	}
	t := f.temp(typeI32)
	b := appendU32([]byte{opLocalTee}, t)
	b = appendU32(append(b, opGlobalGet), f.m.globals)
	b = append(appendU32(append(b, opLocalGet), t), opI64Extend, opI64Const, shift, opI64ShrU, opI64Sub, opGlobalSet)
	return appendU32(b, f.m.globals), nil
}
