package corpus

import (
	"context"
	"errors"
	"fmt"
	"os"

	"zombiezen.com/go/sqlite"

	"ailang.dev/world/host/world"
)

// Objects is where documents are read.
type Objects interface {
	// Object reads an object and proves its hash.
	Object(ctx context.Context, ref world.Ref) (world.Object, error)
}

// batchBytes and batchDocuments bound one transaction of an index.
const (
	batchBytes     = 4 << 20
	batchDocuments = 500
)

// Rebuild makes an index anew out of its list and the documents' objects, and puts it in the
// place of the old one. Readers have the old one until then. It returns how many documents
// it has; one whose object or line in the list cannot be read is told to missing, and left
// out.
func Rebuild(ctx context.Context, dir, name string, objects Objects, missing func(id string, err error)) (int, error) {
	if err := CheckName(name); err != nil {
		return 0, err
	}
	if !there(dir, name) {
		return 0, notThere("corpus.Rebuild", dir, name)
	}
	old, err := lockCorpus(ctx, dir, name)
	if err != nil {
		return 0, err
	}
	defer old.Close()
	if _, err := os.Stat(listPath(dir, name)); err != nil {
		return 0, &world.Error{Op: "corpus.Rebuild", Kind: world.KindIntegrity, Subject: name, Err: err,
			Msg:  "the list of corpus " + name + " cannot be read, and an index is made out of nothing else",
			Hint: "restore " + name + ".list from a copy, or remove the corpus and add its documents again"}
	}
	list, err := readList(dir, name)
	if err != nil {
		return 0, world.Wrap(world.KindInternal, "corpus.Rebuild", err)
	}
	list.there = withIndexed(indexPath(dir, name), list)
	for _, n := range list.broken {
		missing(fmt.Sprintf("line %d of the list", n), errors.New("it cannot be read"))
	}
	tmp, err := scratch(dir, name)
	if err != nil {
		return 0, world.Wrap(world.KindInternal, "corpus.Rebuild", err)
	}
	defer os.RemoveAll(tmp)
	n, err := fill(ctx, tmp, name, list.there, objects, missing)
	if err != nil {
		return 0, err
	}
	if err := overwrite(indexPath(dir, name), indexPath(tmp, name)); err != nil {
		return 0, world.Wrap(world.KindInternal, "corpus.Rebuild", err)
	}
	return n, nil
}

func fill(ctx context.Context, dir, name string, list []listed, objects Objects, missing func(string, error)) (int, error) {
	w, err := OpenWriter(ctx, dir, name)
	if err != nil {
		return 0, err
	}
	defer w.Close()
	var batch []Entry
	n, size := 0, 0
	// Of an id that stands twice, since the index was not written after the list was, one keeps it;
	// the other gets one that none has.
	owner := map[string]string{}
	for _, l := range list {
		if _, twice := owner[l.ID]; !twice || l.indexed {
			owner[l.ID] = l.Origin
		}
		w.reserved[l.ID] = true
	}
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := w.Apply(ctx, batch)
		n += len(batch)
		batch, size = batch[:0], 0
		return err
	}
	for _, l := range list {
		o, err := objects.Object(ctx, l.Ref)
		var d *Document
		if err == nil {
			d, err = ParseDocument(o.Payload)
		}
		if err != nil {
			// Only what is known not to be there, or not to be whole, is left out: of anything
			// else the index that there is stays.
			if k := world.KindOf(err); k != world.KindNotFound && k != world.KindIntegrity && k != world.KindBadRequest {
				return 0, err
			}
			missing(l.ID, err)
			continue
		}
		e := Entry{Name: l.ID, Origin: l.Origin, Path: l.Path, Original: l.Original, Options: l.Options, Doc: d, Object: o}
		if owner[l.ID] == l.Origin {
			e.id = l.ID
		}
		batch = append(batch, e)
		if size += len(o.Payload); size >= batchBytes || len(batch) >= batchDocuments {
			if err := flush(); err != nil {
				return 0, err
			}
		}
	}
	if err := flush(); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, nil
	}
	return n, w.Finish(ctx)
}

// withIndexed is a list with what the index has and it has not, and knows which the index has.
// An index that cannot be read adds nothing.
func withIndexed(path string, l list) []listed {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return l.there
	}
	defer c.Close()
	have, err := listedIn(c)
	if err != nil {
		return l.there
	}
	place := map[string]int{}
	for i, line := range l.there {
		place[line.Origin] = i
	}
	for _, line := range have {
		switch i, ok := place[line.Origin]; {
		case ok:
			l.there[i].indexed = l.there[i].ID == line.ID
		case !l.gone[line.Origin]:
			line.indexed = true
			l.there = append(l.there, line)
		}
	}
	return l.there
}
