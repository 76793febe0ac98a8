package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Binary is one archived file and what is known of it. It is safe for concurrent use.
type Binary struct {
	path string
	ref  world.Ref
	name string // of what it is, for messages
	logf func(format string, args ...any)
	// seal is newImage, but for tests.
	seal func(path string, ref world.Ref) (*image, error)

	mu    sync.Mutex
	stamp fs.FileInfo // of the file when it was last hashed, and fitted
	image *image      // what is executed
	told  bool        // the operator knows that what is executed is not sealed
}

// Prove makes sure that the file is what its name says. It is hashed again only if its
// size, times, inode or device changed. That is sound enough because nothing is executed
// from the file once there is an image: a change that leaves all of them as they were (it
// takes the clock set back, or a device written to directly) is not noticed until the next
// start, and does not run. Where there is no image but the file itself, see image_other.go.
func (b *Binary) Prove() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.proveLocked()
}

func (b *Binary) proveLocked() error {
	st, err := os.Lstat(b.path)
	if err != nil {
		return fmt.Errorf("the archived binary: %w", err)
	}
	if b.stamp != nil && sameFile(b.stamp, st) {
		return nil
	}
	b.stamp = nil
	if err := b.hash(); err != nil {
		return fmt.Errorf("the archived binary %s %w", b.path, err)
	}
	b.stamp = st // from before it was hashed: a change meanwhile shows next time
	return nil
}

var errOther = errors.New("is not the file that was archived: its hash does not fit its name")

// hash reads the file and compares it with its name.
func (b *Binary) hash() error {
	f, _, err := openRegular(b.path, nofollow)
	if err != nil {
		return err
	}
	defer f.Close()
	return fits(io.Discard, f, b.ref)
}

// fits copies a file and tells whether what was copied is what ref names.
func fits(w io.Writer, f *os.File, ref world.Ref) error {
	sum := hashref.NewStream()
	if _, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(f, MaxBinary+1)); err != nil {
		return err
	}
	if sum.Ref() != ref {
		return errOther
	}
	return nil
}

// Ready gives the path to execute, after the file was proved. It is good for as long as the
// Binary is not closed.
func (b *Binary) Ready() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.readyLocked()
}

func (b *Binary) readyLocked() (string, error) {
	if err := b.proveLocked(); err != nil {
		return "", err
	}
	if b.image == nil {
		img, err := b.seal(b.path, b.ref)
		if err != nil {
			return "", err
		}
		if img.unsealed != nil && !b.told {
			b.logf("%s: no sealed copy of %s can be had (%v): what is executed is the archived file, which whoever may write to it can change after it was hashed", b.name, b.ref, Bare(img.unsealed))
		}
		b.told = img.unsealed != nil
		if b.told && !lasting(img.unsealed) {
			return img.path, nil // the next run tries again
		}
		b.image = img
	}
	return b.image.path, nil
}

// Sealed is a descriptor of a copy in memory that nobody can change any more, after the file
// was proved. It is the caller's to close. Where there is no such memory it is an error.
func (b *Binary) Sealed() (*os.File, error) {
	b.mu.Lock() // held until it is open: the copy's path is a descriptor's
	defer b.mu.Unlock()
	path, err := b.readyLocked()
	if err != nil {
		return nil, err
	}
	if path == b.path {
		return nil, fmt.Errorf("no sealed copy of %s can be had", b.ref)
	}
	return os.Open(path)
}

// Close lets go of the sealed copy.
func (b *Binary) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.image != nil {
		b.image.close()
		b.image = nil
	}
}
