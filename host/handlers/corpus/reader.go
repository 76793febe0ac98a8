package corpus

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// readers is how many searches of one corpus run at once; more wait.
const readers = 4

// pageCache is what each of the readers may keep of an index in memory: 16 MB.
const pageCache = "PRAGMA cache_size = -16384"

// Library reads the corpora of a folder. An index that another process changed is read as it
// is now; one that was put in the place of another is opened anew. It is safe for concurrent
// use.
type Library struct {
	dir   string
	stems sync.Pool // of *stemmer, which remember what they met
	mu    sync.Mutex
	open  map[string]*shelf
}

// shelf is one open index.
type shelf struct {
	pool *sqlitex.Pool
	file os.FileInfo
	uses sync.WaitGroup
}

// NewLibrary reads the corpora of a folder, which need not be there.
func NewLibrary(dir string) *Library {
	return &Library{dir: dir, open: map[string]*shelf{}, stems: sync.Pool{New: func() any { return newStemmer() }}}
}

// Close gives up all indexes.
func (l *Library) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	for name, s := range l.open {
		s.uses.Wait()
		err = errors.Join(err, s.pool.Close())
		delete(l.open, name)
	}
	return err
}

// Has is nil if a corpus is there, else it tells what there is, and how to add one.
func (l *Library) Has(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if _, err := os.Stat(indexPath(l.dir, name)); err != nil {
		if errors.Is(err, fs.ErrNotExist) && there(l.dir, name) {
			return damaged("corpus.Has", name, err)
		}
		return notThere("corpus.Has", l.dir, name)
	}
	return nil
}

// shelf is the open index of a corpus, which is given back with uses.Done.
func (l *Library) shelf(name string) (*shelf, error) {
	if err := l.Has(name); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	st, err := os.Stat(indexPath(l.dir, name))
	if err != nil {
		return nil, notThere("corpus.open", l.dir, name)
	}
	s := l.open[name]
	if s != nil && !os.SameFile(s.file, st) {
		old := s
		go func() { old.uses.Wait(); old.pool.Close() }()
		s = nil
	}
	if s == nil {
		pool, err := sqlitex.NewPool(indexPath(l.dir, name), sqlitex.PoolOptions{Flags: sqlite.OpenReadOnly, PoolSize: readers,
			PrepareConn: func(c *sqlite.Conn) error { return sqlitex.ExecuteTransient(c, pageCache, nil) }})
		if err != nil {
			return nil, err
		}
		s = &shelf{pool: pool, file: st}
		l.open[name] = s
	}
	s.uses.Add(1)
	return s, nil
}

// read has f read one state of a corpus, until ctx ends.
func (l *Library) read(ctx context.Context, op, name string, f func(c *sqlite.Conn, m meta) error) (err error) {
	s, err := l.shelf(name)
	if err != nil {
		return wrap(ctx, op, name, err)
	}
	defer s.uses.Done()
	c, err := s.pool.Take(ctx)
	if err != nil {
		return wrap(ctx, op, name, err)
	}
	defer s.pool.Put(c)
	defer func() { err = wrap(ctx, op, name, err) }()
	defer sqlitex.Transaction(c)(&err)
	m, err := readMeta(c, name)
	if err != nil {
		return err
	}
	return f(c, m)
}
