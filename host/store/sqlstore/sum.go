package sqlstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"ailang.dev/world/host/world"
)

// The checksum of a row is the CRC-32C of its table's name and its columns, in the order
// below, each written so that no two different rows give the same bytes: integers as 8
// bytes, texts with their length before them, references as one byte "is there" and 32
// more. Payloads are not in it: their hash proves them, and is.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var sumBuffers = sync.Pool{New: func() any { return &sumBuffer{b: make([]byte, 0, 512)} }}

type sumBuffer struct{ b []byte }

func sumOf(table string) *sumBuffer {
	s := sumBuffers.Get().(*sumBuffer)
	s.b = s.b[:0]
	return s.text(table)
}

func (s *sumBuffer) int(v int64) *sumBuffer {
	s.b = binary.BigEndian.AppendUint64(s.b, uint64(v))
	return s
}

func (s *sumBuffer) text(v string) *sumBuffer {
	s.int(int64(len(v)))
	s.b = append(s.b, v...)
	return s
}

func (s *sumBuffer) ref(r world.Ref) *sumBuffer {
	if r.IsNone() {
		s.b = append(s.b, 0)
		return s
	}
	s.b = append(s.b, 1)
	s.b = r.AppendDigest(s.b)
	return s
}

func (s *sumBuffer) flag(v bool) *sumBuffer {
	if v {
		return s.int(1)
	}
	return s.int(0)
}

func (s *sumBuffer) time(t time.Time) *sumBuffer { return s.text(FormatTime(t)) }

func (s *sumBuffer) sum() int64 {
	c := crc32.Checksum(s.b, castagnoli)
	sumBuffers.Put(s)
	return int64(c)
}

// Sum is the row's checksum.
func (r HeadRow) Sum() int64 {
	return sumOf("head").int(r.Batch).int(r.Seq).ref(r.World).ref(r.LogHead).int(r.Next).sum()
}

// Sum is the row's checksum.
func (r ObjectRow) Sum() int64 {
	m := r.Meta
	return sumOf("objects").int(r.Seq).ref(m.Hash).ref(m.InterfaceHash).text(m.SemanticID).text(m.Provenance).int(r.Size).sum()
}

// Sum is the row's checksum.
func (r EntryRow) Sum() int64 {
	h, w := r.Entry.Header, r.World
	return sumOf("entries").int(r.Seq).int(h.EntryIndex).int(h.SemanticsEpoch).ref(h.TransitionFn).ref(h.Interpreter).
		ref(h.PrevEntryHash).text(h.WrittenBy).ref(r.Entry.EntryHash).ref(r.Entry.TransitionRef).
		ref(w.Ref).int(w.Revision).ref(w.StateRoot).ref(w.LogHead).sum()
}

// Sum is the row's checksum.
func (r JournalRow) Sum() int64 {
	return sumOf("journal").int(r.Seq).int(int64(r.Kind)).text(string(r.Invocation)).ref(r.Digest).ref(r.Credential).text(r.EffectID).
		text(r.Episode).text(r.Need.Effect).text(r.Need.Scope).int(r.Need.Cost).ref(r.Ref).int(r.Index).sum()
}

// Sum is the row's checksum.
func (r RegistryRow) Sum() int64 {
	return sumOf("registry").int(r.Seq).text(r.Head.Name).int(r.Head.Revision).ref(r.Head.Head).sum()
}

// Sum is the row's checksum.
func (r SessionRow) Sum() int64 {
	return sumOf("sessions").int(r.Seq).ref(r.ID).text(r.Episode).text(r.Grants).time(r.Created).time(r.Expires).flag(r.Revoked).sum()
}

// Sum is the row's checksum.
func (r KeptRow) Sum() int64 {
	return sumOf("kept").int(r.ID).text(r.Kind).ref(r.Key).int(r.Expires).int(int64(crc32.Checksum(r.Body, castagnoli))).int(int64(len(r.Body))).sum()
}

// Sum is the row's checksum.
func (r SpendRow) Sum() int64 {
	return sumOf("spend").text(r.Episode).text(r.Effect).text(r.Scope).int(r.Spent).sum()
}

// Sum is the row's checksum.
func (r RefRow) Sum() int64 {
	return sumOf("refs").ref(r.Target).int(r.Seq).int(int64(r.Kind)).int(r.Place).sum()
}

// SumInts is the checksum of a row of integers alone, for tables that only a backend has.
func SumInts(table string, columns ...int64) int64 {
	s := sumOf(table)
	for _, v := range columns {
		s.int(v)
	}
	return s.sum()
}

// SumOf is the checksum of a row of texts and integers, for tables that only a backend has.
func SumOf(table string, texts []string, ints ...int64) int64 {
	s := sumOf(table)
	for _, v := range texts {
		s.text(v)
	}
	for _, v := range ints {
		s.int(v)
	}
	return s.sum()
}

// SumMeta is the checksum of the row that names the store and its format.
func SumMeta(id string, version int64) int64 { return sumOf("meta").text(id).int(version).sum() }

var errSum = errors.New("the row does not match its checksum")

// Prove compares the checksum a row was stored with to the one its columns give. Every
// backend calls it for every row it reads. row names the row within its table.
func Prove(table string, row any, stored, computed int64) error {
	if stored == computed {
		return nil
	}
	return Damaged(table, row, errSum)
}

// Damaged is the error of a row that does not prove itself.
func Damaged(table string, row any, cause error) error {
	return &world.Error{Op: "store", Kind: world.KindIntegrity, Subject: fmt.Sprintf("%s row %v", table, row), Err: cause,
		Hint: "the file was changed from outside or the disk failed; restore a copy"}
}

// FormatTime is how moments are kept: RFC 3339 with nanoseconds, UTC.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// ParseTime reads FormatTime.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	return t.UTC(), err
}
