package corpus

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// A cursor says where the next page of a search begins: 8 bytes of the corpus's generation,
// 4 of the offset, and a seal over these, the corpus and the query, keyed by the index.
const (
	cursorSeal = 16
	maxCursor  = 64
)

func seal(name string, m meta, q *Query, head []byte) []byte {
	mac := hmac.New(sha256.New, []byte(m.key))
	mac.Write(head)
	mac.Write(hashref.MustMarshal(struct {
		Corpus  string  `json:"corpus"`
		Query   string  `json:"query"`
		Filters Filters `json:"filters"`
	}{name, q.Query, q.Filters}))
	return mac.Sum(nil)[:cursorSeal]
}

func sealCursor(name string, m meta, q *Query, offset int) string {
	head := binary.BigEndian.AppendUint64(nil, uint64(m.generation))
	head = binary.BigEndian.AppendUint32(head, uint32(offset))
	return base64.RawURLEncoding.EncodeToString(append(head, seal(name, m, q, head)...))
}

// openCursor is where a page begins. A cursor that was not given for this query, or before
// the corpus changed, is KindBadRequest with what to do.
func openCursor(name string, m meta, q *Query) (int, error) {
	if q.Cursor == "" {
		return 0, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(q.Cursor)
	if err != nil || len(raw) != 12+cursorSeal || !hmac.Equal(raw[12:], seal(name, m, q, raw[:12])) {
		return 0, refusal("the cursor is not one that this search gave; leave it out to begin anew")
	}
	if binary.BigEndian.Uint64(raw) != uint64(m.generation) {
		return 0, refusal("the corpus has changed since the cursor was given; leave it out to begin anew")
	}
	return int(binary.BigEndian.Uint32(raw[8:])), nil
}

// refusal is a no that is an answer.
func refusal(format string, args ...any) error {
	return world.Errorf(world.KindNotFound, "corpus", format, args...)
}
