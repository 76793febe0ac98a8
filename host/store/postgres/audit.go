package postgres

import (
	"bytes"
	"fmt"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// Audit implements sqlstore.Rows.
func (q rows) Audit(v *sqlstore.Visitor) error {
	if err := q.each("SET LOCAL statement_timeout = 0", nil, func(*cols) error { return nil }); err != nil {
		return err
	}
	var want int64 // lines of the index of references
	counted := *v
	counted.Object = func(r *sqlstore.ObjectRow, own error) error {
		want += int64(len(sqlstore.RefsOfObject(nil, r)))
		return v.Object(r, own)
	}
	counted.Entry = func(r *sqlstore.EntryRow, own error) error {
		want += int64(len(sqlstore.RefsOfEntry(nil, r)))
		return v.Entry(r, own)
	}
	counted.Registry = func(r *sqlstore.RegistryRow, own error) error {
		want += int64(len(sqlstore.RefsOfRegistry(nil, r)))
		return v.Registry(r, own)
	}
	for _, table := range []func(*sqlstore.Visitor) error{
		q.auditObjects, q.auditEntries, q.auditJournal, q.auditPending, q.auditControl, q.auditSpend, q.auditKept, q.auditOwn,
	} {
		if err := table(&counted); err != nil {
			return err
		}
	}
	return q.auditRefs(v, want)
}

// damage parts a row's own damage from an error that ends the reading.
func damage(err error) (own, fatal error) {
	if err != nil && world.KindOf(err) == world.KindIntegrity {
		return err, nil
	}
	return nil, err
}

// visit reads each row and shows it. keys, which stand before the row's own columns, are what
// it is found by and must be those of want.
func visit[R any](q rows, show func(*R, error) error, scan func(*cols, *R) error, table string, keys []string, want func(*R) [][]byte, sql string) error {
	return q.each(sql, nil, func(k *cols) error {
		var got [][]byte
		for range keys {
			got = append(got, k.blob())
		}
		var r R
		own, fatal := damage(scan(k, &r))
		if fatal != nil {
			return fatal
		}
		if own == nil && want != nil {
			for i, w := range want(&r) {
				if !bytes.Equal(got[i], w) {
					own = sqlstore.Damaged(table, keys[i], fmt.Errorf("it is not found by what it says"))
				}
			}
		}
		return show(&r, own)
	})
}

func (q rows) auditObjects(v *sqlstore.Visitor) error {
	return visit(q, v.Object, scanPayload, "objects", []string{"semantic_key"},
		func(r *sqlstore.ObjectRow) [][]byte { return [][]byte{textKey(r.Meta.SemanticID)} },
		"SELECT semantic_key, "+objectCols+", payload FROM objects")
}

func (q rows) auditEntries(v *sqlstore.Visitor) error {
	return visit(q, v.Entry, scanEntry, "entries", nil, nil, "SELECT "+entryCols+" FROM entries ORDER BY entry_index")
}

func (q rows) auditJournal(v *sqlstore.Visitor) error {
	return visit(q, v.Journal, scanJournal, "journal", []string{"call_key", "episode_key"},
		func(r *sqlstore.JournalRow) [][]byte { return [][]byte{textKey(string(r.Invocation)), episodeKey(r)} },
		"SELECT call_key, episode_key, "+journalCols+" FROM journal ORDER BY seq")
}

func (q rows) auditPending(v *sqlstore.Visitor) error {
	return q.each("SELECT seq, writer, sum FROM pending ORDER BY seq", nil, func(k *cols) error {
		seq, writer := k.int(), k.text()
		if err := k.prove("pending", seq, k.int(), sumPending(writer, seq)); err != nil {
			if err := v.Derived(err); err != nil {
				return err
			}
		}
		return v.Pending(seq)
	})
}

func (q rows) auditControl(v *sqlstore.Visitor) error {
	err := visit(q, v.Registry, scanRegistry, "registry", []string{"name_key"},
		func(r *sqlstore.RegistryRow) [][]byte { return [][]byte{textKey(r.Head.Name)} },
		"SELECT name_key, "+registryCols+" FROM registry ORDER BY seq")
	if err != nil {
		return err
	}
	return visit(q, v.Session, scanSession, "sessions", []string{"episode_key"},
		func(r *sqlstore.SessionRow) [][]byte { return [][]byte{textKey(r.Episode)} },
		"SELECT episode_key, "+sessionCols+" FROM sessions ORDER BY seq")
}

func (q rows) auditSpend(v *sqlstore.Visitor) error {
	return visit(q, v.Spend, scanSpend, "spend", []string{"spend_key"},
		func(r *sqlstore.SpendRow) [][]byte { return [][]byte{textsKey(r.Episode, r.Effect, r.Scope)} },
		"SELECT spend_key, "+spendCols+" FROM spend")
}

func (q rows) auditKept(v *sqlstore.Visitor) error {
	return visit(q, v.Kept, scanKept, "kept", nil, nil, "SELECT "+keptCols+" FROM kept ORDER BY id")
}

// auditRefs proves each line of the index of references, and that there are as many as the
// rows that hold references make.
func (q rows) auditRefs(v *sqlstore.Visitor, want int64) error {
	var got int64
	err := visit(q, func(_ *sqlstore.RefRow, own error) error {
		if got++; own == nil {
			return nil
		}
		return v.Derived(own)
	}, scanRef, "refs", nil, nil, "SELECT "+refCols+" FROM refs")
	if err != nil || got == want {
		return err
	}
	return v.Derived(sqlstore.Damaged("refs", "all", fmt.Errorf("there are %d, and should be %d; %s", got, want, reindexHint)))
}

// auditOwn proves the rows that this backend alone has.
func (q rows) auditOwn(v *sqlstore.Visitor) error {
	tell := func(err error) error {
		if err == nil {
			return nil
		}
		return v.Derived(err)
	}
	err := q.each("SELECT store_id, sum FROM meta", nil, func(k *cols) error {
		id := k.text()
		return tell(k.prove("meta", 1, k.int(), sqlstore.SumMeta(id, 1)))
	})
	if err != nil {
		return err
	}
	err = q.each("SELECT id, batch, sum FROM writers", nil, func(k *cols) error {
		id, batch := k.text(), k.int()
		return tell(k.prove("writers", id, k.int(), writerSum(id, batch)))
	})
	if err != nil {
		return err
	}
	return q.each("SELECT episode_key, episode, holder, fence, sum FROM leases", nil, func(k *cols) error {
		key, episode, holder, fence := k.blob(), k.text(), k.text(), k.int()
		if !bytes.Equal(key, textKey(episode)) {
			k.note(fmt.Errorf("it is not found by what it says"))
		}
		return tell(k.prove("leases", episode, k.int(), leaseSum(episode, holder, fence)))
	})
}

func leaseSum(episode, holder string, fence int64) int64 {
	return sqlstore.SumOf("leases", []string{episode, holder}, fence)
}
