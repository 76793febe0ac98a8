package postgres

import (
	"context"
	"slices"
	"sync"
	"time"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// adopting is what became of intents that this daemon tried to take over.
type adopting struct {
	mu     sync.Mutex
	unsure []sqlstore.Seq // of the last try, if its end is not known
}

// orphan is the condition for an intent of pending that $2 may take over: its writer is no more,
// or $2 tried to and does not know whether it has. $1 are those, $3 is how much longer than a
// WriterTTL writers are taken to be alive.
const orphan = "(pending.writer = $2 AND pending.seq = ANY ($1::bigint[]) OR pending.writer <> $2 AND NOT EXISTS" +
	" (SELECT 1 FROM writers WHERE writers.id = pending.writer AND writers.until > clock_timestamp() - $3::interval))"

const listOrphans = "SELECT " + journalCols + " FROM pending JOIN journal ON journal.seq = pending.seq WHERE " + orphan + " ORDER BY pending.seq LIMIT $4"

const adoptOrphans = "UPDATE pending SET writer = $2, sum = u.sum FROM unnest($4::bigint[], $5::bigint[]) AS u (seq, sum)" +
	" WHERE pending.seq = u.seq AND " + orphan + " RETURNING pending.seq"

// Adopt implements store.Shared.
func (s *Store) Adopt(ctx context.Context, limit int) (open []store.Invocation, more bool, err error) {
	d := s.db
	d.adopting.mu.Lock()
	defer d.adopting.mu.Unlock()
	grace := d.pulse.grace(time.Now())
	var found []sqlstore.JournalRow
	all, next, err := s.UnresolvedOf(ctx, 0, limit, func(r sqlstore.Rows, _ sqlstore.Seq, limit int) ([]sqlstore.JournalRow, error) {
		var err error
		found, err = list(r.(rows), scanJournal, listOrphans, d.unsureArg(), d.writerID, grace, limit)
		return found, err
	})
	if err != nil || len(found) == 0 {
		return nil, false, err
	}
	got, err := d.adopt(ctx, found, grace)
	if err != nil {
		return nil, false, d.target.fail("adopt", err)
	}
	for _, inv := range all {
		if got[inv.ID] {
			open = append(open, inv)
		}
	}
	return open, next != 0, nil
}

func (d *database) unsureArg() []int64 { return append([]int64{}, d.adopting.unsure...) }

// adopt makes those of found this daemon's that are an orphan still, and gives their invocations.
func (d *database) adopt(ctx context.Context, found []sqlstore.JournalRow, grace time.Duration) (map[world.InvocationID]bool, error) {
	seqs, sums := make([]int64, len(found)), make([]int64, len(found))
	ids := make(map[int64]world.InvocationID, len(found))
	for i := range found {
		seqs[i], ids[found[i].Seq] = found[i].Seq, found[i].Invocation
		sums[i] = sumPending(d.writerID, found[i].Seq)
	}
	before := d.unsureArg()
	d.adopting.unsure = append(d.adopting.unsure, seqs...)
	slices.Sort(d.adopting.unsure)
	d.adopting.unsure = slices.Compact(d.adopting.unsure)
	r, err := d.side.Query(ctx, adoptOrphans, before, d.writerID, grace, seqs, sums)
	if err != nil {
		return nil, err
	}
	got := make(map[world.InvocationID]bool)
	if err := show(r, func(k *cols) error { got[ids[k.int()]] = true; return nil }); err != nil {
		return nil, err
	}
	d.adopting.unsure = slices.DeleteFunc(before, func(seq int64) bool { return ids[seq] != "" })
	return got, nil
}

// sumPending is the checksum of a row of pending.
func sumPending(writer string, seq sqlstore.Seq) int64 {
	return sqlstore.SumOf("pending", []string{writer}, seq)
}
