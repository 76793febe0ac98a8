package postgres

import (
	"github.com/jackc/pgx/v5"

	"ailang.dev/world/host/store"
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
	held    map[store.Lease]found[bool]
}

// fetch is the way there and back that begins a transaction.
type fetch struct {
	known
	batch   pgx.Batch
	headErr error
}

const beginWrite = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

// newFetch asks for the head's lock, and for what is needed after it.
func newFetch(n *sqlstore.Needs, writer string) *fetch {
	f := &fetch{known: known{
		calls:   make(map[world.InvocationID]found[[]sqlstore.JournalRow]),
		objects: make(map[world.Ref]found[sqlstore.ObjectRow]),
		spend:   make(map[spendKey]found[sqlstore.SpendRow]),
		held:    make(map[store.Lease]found[bool]),
	}}
	f.batch.Queue(beginWrite)
	f.batch.Queue(selectHead + " FOR UPDATE").Query(f.takeHead)
	if n == nil {
		return f
	}
	f.askCalls(n.Calls)
	f.askObjects(n.Objects)
	f.askSpend(n.Spend)
	f.askLeases(n.Leases, writer)
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

// lockLeases reads leases, and keeps them from being taken until the transaction ends.
const lockLeases = "SELECT episode, holder, fence, sum FROM leases WHERE episode_key = ANY ($1::bytea[]) ORDER BY episode_key FOR UPDATE"

func (f *fetch) askLeases(leases []store.Lease, writer string) {
	if len(leases) == 0 {
		return
	}
	keys := make([][]byte, len(leases))
	for i, l := range leases {
		keys[i] = textKey(l.Episode)
		f.held[l] = found[bool]{}
	}
	f.batch.Queue(lockLeases, keys).Query(func(r pgx.Rows) error {
		return show(r, func(k *cols) error {
			l, err := scanHeld(k, writer)
			if _, asked := f.held[l]; asked {
				f.held[l] = found[bool]{ok: err == nil, err: err}
			}
			return nil
		})
	})
}

// scanHeld reads a row of leases as a lease of this writer's; of another's, as none.
func scanHeld(k *cols, writer string) (store.Lease, error) {
	episode, holder, fence := k.text(), k.text(), k.int()
	err := k.prove("leases", episode, k.int(), leaseSum(episode, holder, fence))
	if holder != writer {
		return store.Lease{}, err
	}
	return store.Lease{Episode: episode, Fence: fence}, err
}
