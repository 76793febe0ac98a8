package postgres

import (
	"github.com/jackc/pgx/v5"

	"ailang.dev/world/host/store/sqlstore"
)

// buffer is what operations wrote and the server was not sent yet.
type buffer struct {
	objects []*sqlstore.ObjectRow
	entries []*sqlstore.EntryRow
	journal []*sqlstore.JournalRow
	spend   []*sqlstore.SpendRow // the last of a key counts
	refs    []sqlstore.RefRow
	opened  []sqlstore.Seq // intents
	closed  []sqlstore.Seq
	other   []statement // in their order
}

type statement struct {
	sql  string
	args []any
}

// mark is a point in a buffer.
type mark struct{ objects, entries, journal, spend, refs, opened, closed, other int }

func (b *buffer) mark() mark {
	return mark{len(b.objects), len(b.entries), len(b.journal), len(b.spend), len(b.refs), len(b.opened), len(b.closed), len(b.other)}
}

// cut parts a buffer at a mark.
func (b *buffer) cut(m mark) (before, after buffer) {
	before = buffer{b.objects[:m.objects], b.entries[:m.entries], b.journal[:m.journal], b.spend[:m.spend],
		b.refs[:m.refs], b.opened[:m.opened], b.closed[:m.closed], b.other[:m.other]}
	after = buffer{b.objects[m.objects:], b.entries[m.entries:], b.journal[m.journal:], b.spend[m.spend:],
		b.refs[m.refs:], b.opened[m.opened:], b.closed[m.closed:], b.other[m.other:]}
	return before, after
}

// queue adds the buffer's statements to what is sent next: one for each table.
func (b *buffer) queue(batch *pgx.Batch, writer string) {
	var all []statement
	if len(b.objects) > 0 {
		all = append(all, objectsInsert(b.objects))
	}
	if len(b.entries) > 0 {
		all = append(all, entriesInsert(b.entries))
	}
	if len(b.journal) > 0 {
		all = append(all, journalInsert(b.journal))
	}
	if len(b.spend) > 0 {
		all = append(all, spendUpsert(b.spend))
	}
	if len(b.refs) > 0 {
		all = append(all, refsInsert(b.refs))
	}
	all = append(all, b.pending(writer)...)
	for _, s := range append(all, b.other...) {
		batch.Queue(s.sql, s.args...)
	}
}

// pending is the statements for intents. One that was opened and closed since needs none.
func (b *buffer) pending(writer string) (all []statement) {
	closed := make(map[sqlstore.Seq]bool, len(b.closed))
	for _, seq := range b.closed {
		closed[seq] = true
	}
	var seqs, sums []int64
	for _, seq := range b.opened {
		if closed[seq] {
			delete(closed, seq)
			continue
		}
		seqs, sums = append(seqs, seq), append(sums, sumPending(writer, seq))
	}
	if len(seqs) > 0 {
		all = append(all, statement{"INSERT INTO pending (seq, writer, sum) SELECT u.seq, $2, u.sum FROM unnest($1::bigint[], $3::bigint[]) AS u (seq, sum)",
			[]any{seqs, writer, sums}})
	}
	var drop []int64
	for _, seq := range b.closed {
		if closed[seq] {
			drop = append(drop, seq)
		}
	}
	if len(drop) > 0 {
		all = append(all, statement{"DELETE FROM pending WHERE seq = ANY ($1::bigint[])", []any{drop}})
	}
	return all
}

// columns collects the values of rows, a list for each column.
type columns struct {
	ints  [][]int64
	texts [][]string
	blobs [][][]byte
}

func newColumns(ints, texts, blobs, n int) *columns {
	c := &columns{ints: make([][]int64, ints), texts: make([][]string, texts), blobs: make([][][]byte, blobs)}
	for i := range c.ints {
		c.ints[i] = make([]int64, 0, n)
	}
	for i := range c.texts {
		c.texts[i] = make([]string, 0, n)
	}
	for i := range c.blobs {
		c.blobs[i] = make([][]byte, 0, n)
	}
	return c
}

func (c *columns) int(vs ...int64) *columns {
	for i, v := range vs {
		c.ints[i] = append(c.ints[i], v)
	}
	return c
}

func (c *columns) text(vs ...string) *columns {
	for i, v := range vs {
		c.texts[i] = append(c.texts[i], encodeText(v))
	}
	return c
}

func (c *columns) blob(vs ...[]byte) *columns {
	for i, v := range vs {
		c.blobs[i] = append(c.blobs[i], v)
	}
	return c
}

// args are the lists: integers, then texts, then bytes.
func (c *columns) args() (args []any) {
	for _, v := range c.ints {
		args = append(args, v)
	}
	for _, v := range c.texts {
		args = append(args, v)
	}
	for _, v := range c.blobs {
		args = append(args, v)
	}
	return args
}

func objectsInsert(list []*sqlstore.ObjectRow) statement {
	c := newColumns(3, 2, 4, len(list))
	for _, r := range list {
		m := &r.Meta
		c.int(r.Seq, r.Size, r.Sum()).text(m.SemanticID, m.Provenance)
		payload := r.Payload
		if payload == nil {
			payload = []byte{}
		}
		c.blob(refBytes(m.Hash), refBytes(m.InterfaceHash), textKey(m.SemanticID), payload)
	}
	return statement{"INSERT INTO objects (seq, size, sum, semantic_id, provenance, hash, interface_hash, semantic_key, payload)" +
		" SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[])", c.args()}
}

func entriesInsert(list []*sqlstore.EntryRow) statement {
	c := newColumns(5, 1, 8, len(list))
	for _, r := range list {
		h, w := &r.Entry.Header, &r.World
		c.int(h.EntryIndex, r.Seq, h.SemanticsEpoch, w.Revision, r.Sum()).text(h.WrittenBy)
		c.blob(refBytes(h.TransitionFn), refBytes(h.Interpreter), refBytes(h.PrevEntryHash), refBytes(r.Entry.EntryHash),
			refBytes(r.Entry.TransitionRef), refBytes(w.Ref), refBytes(w.StateRoot), refBytes(w.LogHead))
	}
	return statement{"INSERT INTO entries (entry_index, seq, semantics_epoch, revision, sum, written_by, transition_fn, interpreter, prev_hash, entry_hash," +
		" transition_ref, world, state_root, log_head) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[]," +
		" $7::bytea[], $8::bytea[], $9::bytea[], $10::bytea[], $11::bytea[], $12::bytea[], $13::bytea[], $14::bytea[])", c.args()}
}

// episodeKey is what a journal row of a call that became an entry is listed by.
func episodeKey(r *sqlstore.JournalRow) []byte {
	if r.Kind != sqlstore.KindCommitted {
		return nil
	}
	if e := r.Invocation.Episode(); e != "" {
		return textKey(e)
	}
	return nil
}

func journalInsert(list []*sqlstore.JournalRow) statement {
	c := newColumns(5, 5, 5, len(list))
	for _, r := range list {
		c.int(r.Seq, int64(r.Kind), r.Need.Cost, r.Index, r.Sum())
		c.text(string(r.Invocation), r.EffectID, r.Episode, r.Need.Effect, r.Need.Scope)
		c.blob(textKey(string(r.Invocation)), episodeKey(r), refBytes(r.Digest), refBytes(r.Credential), refBytes(r.Ref))
	}
	return statement{"INSERT INTO journal (seq, kind, cost, entry_index, sum, invocation, effect_id, episode, effect, scope, call_key, episode_key, digest, credential, ref)" +
		" SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[]," +
		" $11::bytea[], $12::bytea[], $13::bytea[], $14::bytea[], $15::bytea[])", c.args()}
}

func spendUpsert(list []*sqlstore.SpendRow) statement {
	last := make(map[spendKey]*sqlstore.SpendRow, len(list))
	for _, r := range list {
		last[spendKey{r.Episode, r.Effect, r.Scope}] = r
	}
	c := newColumns(2, 3, 1, len(last))
	for _, r := range last {
		c.int(r.Spent, r.Sum()).text(r.Episode, r.Effect, r.Scope).blob(textsKey(r.Episode, r.Effect, r.Scope))
	}
	return statement{"INSERT INTO spend (spent, sum, episode, effect, scope, spend_key)" +
		" SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bytea[])" +
		" ON CONFLICT (spend_key) DO UPDATE SET spent = excluded.spent, sum = excluded.sum", c.args()}
}

func refsInsert(list []sqlstore.RefRow) statement {
	c := newColumns(4, 0, 1, len(list))
	for i := range list {
		r := &list[i]
		c.int(r.Seq, int64(r.Kind), r.Place, r.Sum()).blob(refBytes(r.Target))
	}
	return statement{"INSERT INTO refs (seq, kind, place, sum, target)" +
		" SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[])", c.args()}
}
