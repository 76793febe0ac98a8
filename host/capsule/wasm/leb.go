package wasm

import "encoding/binary"

// reader takes a module apart. After the first error it gives zeros, and err stays.
type reader struct {
	b   []byte
	err error
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.err = errCut
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(len(r.b)) {
		r.err, r.b = errCut, nil
		return nil
	}
	head := r.b[:n:n]
	r.b = r.b[n:]
	return head
}

// u32 reads an unsigned LEB128 of at most five bytes.
func (r *reader) u32() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	r.fail()
	return 0
}

// skip reads a LEB128 of at most n bytes, of either sign, whose value does not matter here.
func (r *reader) skip(n int) {
	for range n {
		if r.byte() < 0x80 {
			return
		}
	}
	r.fail()
}

// count is the length of a vector, each of whose entries takes a byte or more.
func (r *reader) count() uint32 {
	n := r.u32()
	if uint64(n) > uint64(len(r.b)) {
		r.err, r.b = errCut, nil
		return 0
	}
	return n
}

// valueType reads a type of the features that are taken. Types that are longer than a byte
// are none of them, so no runtime can take one apart differently.
func (r *reader) valueType() {
	switch c := r.byte(); c {
	case typeI32, typeI64, typeF32, typeF64, typeFunc, typeExt:
	default:
		r.fail()
	}
}

func (r *reader) refType() {
	if c := r.byte(); c != typeFunc && c != typeExt {
		r.fail()
	}
}

// blockType reads nothing, a value's type, or the index of a function's.
func (r *reader) blockType() {
	first := byte(0)
	if len(r.b) > 0 {
		first = r.b[0]
	}
	switch {
	case first == typeEmpty:
		r.byte()
	case first >= 0x40 && first < 0x80:
		r.valueType()
	default:
		r.u32()
	}
}

// zero reads the index of what there is only one of.
func (r *reader) zero() {
	if r.byte() != 0 {
		r.fail()
	}
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = errNumber
	}
	r.b = nil
}

func appendU32(b []byte, v uint32) []byte { return binary.AppendUvarint(b, uint64(v)) }

// appendI64 writes a signed LEB128.
func appendI64(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}
