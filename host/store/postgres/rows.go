package postgres

import (
	"github.com/jackc/pgx/v5"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// asker sends one statement and shows each row of its answer. scan must ask nothing itself.
type asker interface {
	each(sql string, args []any, scan func(*cols) error) error
}

// rows reads rows by asking the server for each.
type rows struct{ asker }

var _ sqlstore.Rows = rows{}

// list reads all rows of an answer.
func list[R any](a asker, scan func(*cols, *R) error, sql string, args ...any) (all []R, err error) {
	err = a.each(sql, args, func(k *cols) error {
		var r R
		err := scan(k, &r)
		all = append(all, r)
		return err
	})
	return all, err
}

// one reads the first row of an answer.
func one[R any](a asker, scan func(*cols, *R) error, sql string, args ...any) (r R, ok bool, err error) {
	all, err := list(a, scan, sql, args...)
	if len(all) > 0 {
		r, ok = all[0], true
	}
	return r, ok, err
}

// show hands each row of an answer to scan.
func show(r pgx.Rows, scan func(*cols) error) error {
	defer r.Close()
	for r.Next() {
		k, err := colsOf(r)
		if err != nil {
			return err
		}
		if err := scan(k); err != nil {
			return err
		}
	}
	return r.Err()
}

const selectHead = "SELECT " + headCols + " FROM head WHERE id = 1"

func (q rows) Head() (sqlstore.HeadRow, error) {
	r, ok, err := one(q, scanHead, selectHead)
	if err == nil && !ok {
		err = sqlstore.Damaged("head", 1, errNoRow)
	}
	return r, err
}

func (q rows) Object(hash world.Ref, payload bool) (sqlstore.ObjectRow, bool, error) {
	if payload {
		return one(q, scanPayload, "SELECT "+objectCols+", payload FROM objects WHERE hash = $1", refBytes(hash))
	}
	return one(q, scanObject, "SELECT "+objectCols+" FROM objects WHERE hash = $1", refBytes(hash))
}

func (q rows) ObjectBySeq(seq sqlstore.Seq) (sqlstore.ObjectRow, bool, error) {
	return one(q, scanObject, "SELECT "+objectCols+" FROM objects WHERE seq = $1", seq)
}

func (q rows) ObjectsBySemanticID(id string, after world.Ref, limit int) ([]sqlstore.ObjectRow, error) {
	from := refBytes(after)
	if from == nil {
		from = []byte{}
	}
	return indexed(q, indexByName, scanObject, "SELECT "+objectCols+" FROM objects WHERE semantic_key = $1 AND hash > $2 ORDER BY hash LIMIT $3",
		textKey(id), from, limit)
}

func (q rows) Entry(index int64) (sqlstore.EntryRow, bool, error) {
	return one(q, scanEntry, "SELECT "+entryCols+" FROM entries WHERE entry_index = $1", index)
}

func (q rows) EntryByHash(hash world.Ref) (sqlstore.EntryRow, bool, error) {
	return one(q, scanEntry, "SELECT "+entryCols+" FROM entries WHERE entry_hash = $1", refBytes(hash))
}

func (q rows) EntryByWorld(ref world.Ref) (sqlstore.EntryRow, bool, error) {
	return one(q, scanEntry, "SELECT "+entryCols+" FROM entries WHERE world = $1", refBytes(ref))
}

func (q rows) Entries(from int64, limit int) ([]sqlstore.EntryRow, error) {
	return list(q, scanEntry, "SELECT "+entryCols+" FROM entries WHERE entry_index >= $1 ORDER BY entry_index LIMIT $2", from, limit)
}

func (q rows) Registry(name string) (sqlstore.RegistryRow, bool, error) {
	return one(q, scanRegistry, "SELECT "+registryCols+" FROM registry WHERE name_key = $1 ORDER BY revision DESC LIMIT 1", textKey(name))
}

func (q rows) RegistryBySeq(seq sqlstore.Seq) (sqlstore.RegistryRow, bool, error) {
	return one(q, scanRegistry, "SELECT "+registryCols+" FROM registry WHERE seq = $1", seq)
}

func (q rows) Journal(id world.InvocationID, limit int) ([]sqlstore.JournalRow, error) {
	return list(q, scanJournal, "SELECT "+journalCols+" FROM journal WHERE call_key = $1 ORDER BY seq DESC LIMIT $2", textKey(string(id)), limit)
}

func (q rows) Pending(after sqlstore.Seq, limit int) ([]sqlstore.JournalRow, error) {
	return list(q, scanJournal, "SELECT "+journalCols+" FROM pending JOIN journal ON journal.seq = pending.seq"+
		" WHERE pending.seq > $1 ORDER BY pending.seq LIMIT $2", after, limit)
}

func (q rows) Session(id world.Ref) (sqlstore.SessionRow, bool, error) {
	return one(q, scanSession, "SELECT "+sessionCols+" FROM sessions WHERE id = $1", refBytes(id))
}

func (q rows) Sessions(episode string, live bool, after sqlstore.Seq, limit int) ([]sqlstore.SessionRow, error) {
	where := "seq > $1"
	args := []any{after, limit}
	if episode != "" {
		where += " AND episode_key = $3"
		args = append(args, textKey(episode))
	}
	if live {
		where += " AND revoked = 0"
	}
	return list(q, scanSession, "SELECT "+sessionCols+" FROM sessions WHERE "+where+" ORDER BY seq LIMIT $2", args...)
}

func (q rows) Spend(episode, effect, scope string) (sqlstore.SpendRow, bool, error) {
	return one(q, scanSpend, "SELECT "+spendCols+" FROM spend WHERE spend_key = $1", textsKey(episode, effect, scope))
}

func (q rows) Kept(kind string, key world.Ref) (sqlstore.KeptRow, bool, error) {
	return one(q, scanKept, "SELECT "+keptCols+" FROM kept WHERE kind = $1 AND key = $2", encodeText(kind), refBytes(key))
}

func (q rows) KeptAll(kind string, after int64, limit int) ([]sqlstore.KeptRow, error) {
	return list(q, scanKept, "SELECT "+keptCols+" FROM kept WHERE id > $1 AND kind = $2 ORDER BY id LIMIT $3", after, encodeText(kind), limit)
}

func (q rows) Refs(target world.Ref, after sqlstore.Seq, limit int) ([]sqlstore.RefRow, error) {
	if target.IsNone() {
		return nil, nil
	}
	return indexed(q, indexByTarget, scanRef, "SELECT "+refCols+" FROM refs WHERE target = $1 AND seq > $2 ORDER BY seq LIMIT $3",
		refBytes(target), after, limit)
}

func (q rows) EpisodeEntries(episode string, place int64, back bool, limit int) ([]int64, error) {
	sql := "SELECT entry_index FROM journal WHERE episode_key = $1 AND entry_index >= $2 ORDER BY entry_index LIMIT $3"
	if back {
		sql = "SELECT entry_index FROM journal WHERE episode_key = $1 AND entry_index < $2 ORDER BY entry_index DESC LIMIT $3"
	}
	scan := func(k *cols, at *int64) error { *at = k.int(); return k.err }
	return indexed(q, indexByEpisode, scan, sql, textKey(episode), place, limit)
}
