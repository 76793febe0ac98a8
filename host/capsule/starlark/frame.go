package starlark

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
)

// The pipes carry frames: the length of the body as four bytes, big-endian, then the body.
// A request's body is op, the 32 bytes of the source's hash, the source as a field, then
// the input. A reply's body is status, the bytes of heap in use as eight bytes, message and
// cause as fields, then the output. A field is its length as four bytes, then its bytes.

// maxFrame bounds a body: the largest request.
const maxFrame = capsule.MaxSource + capsule.MaxInput + 1<<10

type opcode byte

const (
	opCheck opcode = 1
	opRun   opcode = 2
)

// request is one operation.
type request struct {
	op    opcode
	src   capsule.Source
	input []byte
}

// handle does what a request asks for, in this process.
func (m *machine) handle(ctx context.Context, req request) result {
	if req.op == opCheck {
		return m.check(ctx, req.src)
	}
	return m.run(ctx, req.src, req.input)
}

var errFrame = errors.New("a frame is malformed")

func appendField[T string | []byte](b []byte, field T) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(field))), field...)
}

func cutField(b []byte) (field, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, errFrame
	}
	n := int(binary.BigEndian.Uint32(b))
	if n > len(b)-4 {
		return nil, nil, errFrame
	}
	return b[4 : 4+n], b[4+n:], nil
}

// seal fills in the length of a frame that begins with four bytes kept for it.
func seal(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fmt.Errorf("%w: %d bytes", errFrame, n)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r, body)
	return body, err
}

func (q request) frame() []byte {
	b := make([]byte, 4, 4+1+hashref.Size+4+len(q.src.Text)+len(q.input))
	b = append(b, byte(q.op))
	b = append(b, q.src.Ref.Digest()...)
	b = appendField(b, q.src.Text)
	return seal(append(b, q.input...))
}

func parseRequest(body []byte) (request, error) {
	if len(body) < 1+hashref.Size {
		return request{}, errFrame
	}
	q := request{op: opcode(body[0])}
	var err error
	if q.src.Ref, err = hashref.FromDigest(body[1 : 1+hashref.Size]); err != nil {
		return request{}, err
	}
	if q.src.Text, q.input, err = cutField(body[1+hashref.Size:]); err != nil {
		return request{}, err
	}
	if q.op != opCheck && q.op != opRun {
		return request{}, errFrame
	}
	return q, nil
}

func (r result) frame(heap uint64) []byte {
	b := make([]byte, 4, 4+1+8+4+len(r.msg)+4+len(r.cause)+len(r.out))
	b = append(b, byte(r.status))
	b = binary.BigEndian.AppendUint64(b, heap)
	b = appendField(b, r.msg)
	b = appendField(b, r.cause)
	return seal(append(b, r.out...))
}

func parseResult(body []byte) (r result, heap uint64, err error) {
	if len(body) < 9 {
		return result{}, 0, errFrame
	}
	r.status = status(body[0])
	heap = binary.BigEndian.Uint64(body[1:])
	msg, rest, err := cutField(body[9:])
	if err != nil {
		return result{}, 0, err
	}
	cause, out, err := cutField(rest)
	if err != nil {
		return result{}, 0, err
	}
	if r.status > statusBadOutput || len(out) > capsule.MaxOutput {
		return result{}, 0, errFrame
	}
	r.msg, r.cause, r.out = string(msg), string(cause), out
	return r, heap, nil
}
