package worker

import (
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

func (q Request) frame() []byte {
	b := make([]byte, 4, 4+1+hashref.Size+4+len(q.Source.Text)+len(q.Input))
	b = append(b, byte(q.Op))
	b = append(b, q.Source.Ref.Digest()...)
	b = appendField(b, q.Source.Text)
	return seal(append(b, q.Input...))
}

func parseRequest(body []byte) (Request, error) {
	if len(body) < 1+hashref.Size {
		return Request{}, errFrame
	}
	q := Request{Op: Op(body[0])}
	var err error
	if q.Source.Ref, err = hashref.FromDigest(body[1 : 1+hashref.Size]); err != nil {
		return Request{}, err
	}
	if q.Source.Text, q.Input, err = cutField(body[1+hashref.Size:]); err != nil {
		return Request{}, err
	}
	if q.Op != OpCheck && q.Op != OpRun {
		return Request{}, errFrame
	}
	return q, nil
}

func (r Result) frame(heap uint64) []byte {
	b := make([]byte, 4, 4+1+8+4+len(r.Msg)+4+len(r.Cause)+len(r.Out))
	b = append(b, byte(r.Status))
	b = binary.BigEndian.AppendUint64(b, heap)
	b = appendField(b, r.Msg)
	b = appendField(b, r.Cause)
	return seal(append(b, r.Out...))
}

func parseResult(body []byte) (r Result, heap uint64, err error) {
	if len(body) < 9 {
		return Result{}, 0, errFrame
	}
	r.Status = Status(body[0])
	heap = binary.BigEndian.Uint64(body[1:])
	msg, rest, err := cutField(body[9:])
	if err != nil {
		return Result{}, 0, err
	}
	cause, out, err := cutField(rest)
	if err != nil {
		return Result{}, 0, err
	}
	if r.Status > BadOutput || len(out) > capsule.MaxOutput {
		return Result{}, 0, errFrame
	}
	r.Msg, r.Cause, r.Out = string(msg), string(cause), out
	return r, heap, nil
}
