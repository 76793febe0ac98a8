package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"

	"github.com/bits-and-blooms/bitset"
)

// maxEntry bounds the entries that are kept count of.
const maxEntry = 1 << 33

// ledger counts what the log must hold of this run.
type ledger struct {
	mu      sync.Mutex
	acked   int64         // acknowledged calls
	unknown int64         // calls that may be entries or not
	named   bitset.BitSet // entries that answers named
	twice   int64         // answers that named one that was named
	outside int64         // answers that named what no log has
}

func (l *ledger) add(o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch o.verdict {
	case ok:
		l.acked++
	case unknown:
		l.unknown++
	}
	if o.verdict != ok || o.entry == 0 {
		return
	}
	if o.entry < 0 || o.entry > maxEntry {
		l.outside++
		return
	}
	if l.named.Test(uint(o.entry)) {
		l.twice++
	}
	l.named.Set(uint(o.entry))
}

// account is the log beside what was acknowledged.
type account struct {
	Before       int64  `json:"entries_before"`
	After        int64  `json:"entries_after"`
	Acknowledged int64  `json:"acknowledged"`
	Unknown      int64  `json:"outcome_unknown"` // to the client: each may be an entry or not
	Named        int64  `json:"entries_named_by_answers"`
	Twice        int64  `json:"named_twice"`
	Outside      int64  `json:"named_outside_the_log"`
	Verified     string `json:"verify,omitempty"` // what verify --deep said
}

func (l *ledger) account(before, after int64) account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := account{Before: before, After: after, Acknowledged: l.acked, Unknown: l.unknown, Named: int64(l.named.Count()), Twice: l.twice, Outside: l.outside}
	for i := range l.named.EachSet() {
		if int64(i) < before || int64(i) >= after {
			a.Outside++
		}
	}
	return a
}

// err is not nil unless each acknowledged call is an entry, and each entry a call.
func (a account) err() error {
	made := a.After - a.Before
	switch {
	case made < a.Acknowledged:
		return fmt.Errorf("LOST: %d calls were acknowledged, and the log grew by %d", a.Acknowledged, made)
	case made > a.Acknowledged+a.Unknown:
		return fmt.Errorf("the log grew by %d: more than the %d calls that were acknowledged and the %d whose end is not known; does anybody else call?", made, a.Acknowledged, a.Unknown)
	case a.Twice > 0:
		return fmt.Errorf("%d entries were named by two answers", a.Twice)
	case a.Outside > 0:
		return fmt.Errorf("%d answers named entries that are not of this run", a.Outside)
	}
	return nil
}

// verify proves the whole store.
func (l *loader) verify(ctx context.Context) (string, error) {
	argv := append(l.daemonCommand(), "verify", "--deep", "--db", l.place.db)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = l.log // it tells there how far it is
	out, err := cmd.Output()
	said := strings.ReplaceAll(strings.TrimSpace(string(out)), l.place.db, "the store")
	if err != nil {
		return said, fmt.Errorf("verify --deep: %w: %s", err, said)
	}
	return said, nil
}
