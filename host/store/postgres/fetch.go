package postgres

import (
	"github.com/jackc/pgx/v5"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// maxFetched bounds the journal rows that are fetched ahead; calls beyond are read one by one.
const maxFetched = 20_000

type spendKey struct{ episode, effect, scope string }

// found is what is known of a row: that it is there, is not, or does not prove itself.
type found[R any] struct {
	row R
	ok  bool
	err error
}

func (f found[R]) get() (R, bool, error) { return f.row, f.ok, f.err }

// known is what a transaction was told ahead, and what it wrote itself. What is not in it
// is asked for.
type known struct {
	head    sqlstore.HeadRow
	calls   map[world.InvocationID]found[[]sqlstore.JournalRow] // oldest first
	objects map[world.Ref]found[sqlstore.ObjectRow]
	spend   map[spendKey]found[sqlstore.SpendRow]
}

// fetch is the way there and back that begins a transaction.
type fetch struct {
	known
	batch   pgx.Batch
	headErr error
}

const beginWrite = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

// newFetch asks for the head's lock, and for what is needed after it.
func newFetch(n *sqlstore.Needs) *fetch {
	f := &fetch{known: known{
		calls:   make(map[world.InvocationID]found[[]sqlstore.JournalRow]),
		objects: make(map[world.Ref]found[sqlstore.ObjectRow]),
		spend:   make(map[spendKey]found[sqlstore.SpendRow]),
	}}
	f.batch.Queue(beginWrite)
	f.batch.Queue(selectHead + " FOR UPDATE").Query(f.takeHead)
	if n == nil {
		return f
	}
	f.askCalls(n.Calls)
	f.askObjects(n.Objects)
	f.askSpend(n.Spend)
	return f
}

func (f *fetch) takeHead(r pgx.Rows) error {
	there := false
	err := show(r, func(k *cols) error {
		there = true
		f.headErr = scanHead(k, &f.head)
		return nil
	})
	if err == nil && !there {
		f.headErr = sqlstore.Damaged("head", 1, errNoRow)
	}
	return err
}

func (f *fetch) askCalls(ids []world.InvocationID) {
	if len(ids) == 0 {
		return
	}
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i] = textKey(string(id))
	}
	f.batch.Queue("SELECT "+journalCols+" FROM journal WHERE call_key = ANY ($1::bytea[]) ORDER BY seq LIMIT $2", keys, maxFetched).Query(func(r pgx.Rows) error {
		got, damaged := 0, false
		calls := make(map[world.InvocationID][]sqlstore.JournalRow)
		err := show(r, func(k *cols) error {
			var row sqlstore.JournalRow
			damaged = scanJournal(k, &row) != nil || damaged
			calls[row.Invocation] = append(calls[row.Invocation], row)
			got++
			return nil
		})
		if err != nil || damaged || got == maxFetched {
			return err // each is asked for when it is needed, and tells of its own damage
		}
		for _, id := range ids {
			f.calls[id] = found[[]sqlstore.JournalRow]{row: calls[id], ok: true}
		}
		return nil
	})
}

func (f *fetch) askObjects(hashes []world.Ref) {
	if len(hashes) == 0 {
		return
	}
	for _, h := range hashes {
		f.objects[h] = found[sqlstore.ObjectRow]{}
	}
	f.batch.Queue("SELECT "+objectCols+" FROM objects WHERE hash = ANY ($1::bytea[])", refsBytes(hashes)).Query(func(r pgx.Rows) error {
		return show(r, func(k *cols) error {
			var row sqlstore.ObjectRow
			err := scanObject(k, &row)
			f.objects[row.Meta.Hash] = found[sqlstore.ObjectRow]{row, err == nil, err}
			return nil
		})
	})
}

func (f *fetch) askSpend(needs []sqlstore.SpendRow) {
	if len(needs) == 0 {
		return
	}
	keys := make([][]byte, len(needs))
	for i, n := range needs {
		keys[i] = textsKey(n.Episode, n.Effect, n.Scope)
		f.spend[spendKey{n.Episode, n.Effect, n.Scope}] = found[sqlstore.SpendRow]{}
	}
	f.batch.Queue("SELECT "+spendCols+" FROM spend WHERE spend_key = ANY ($1::bytea[])", keys).Query(func(r pgx.Rows) error {
		return show(r, func(k *cols) error {
			var row sqlstore.SpendRow
			err := scanSpend(k, &row)
			f.spend[spendKey{row.Episode, row.Effect, row.Scope}] = found[sqlstore.SpendRow]{row, err == nil, err}
			return nil
		})
	})
}
