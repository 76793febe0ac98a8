//go:build darwin

package archive

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"ailang.dev/world/host/world"
)

const (
	nonblock = syscall.O_NONBLOCK
	nofollow = syscall.O_NOFOLLOW
)

// image is the archived file itself: this system executes nothing but files. It was hashed
// moments before, and only who owns the archive can change it in between.
type image struct {
	path     string
	unsealed error // always set
}

func lasting(error) bool { return true }

func (*image) close() {}

func newImage(path string, _ world.Ref) (*image, error) {
	return &image{path: path, unsealed: errors.ErrUnsupported}, nil
}

// sameFile compares what is the same on every system; a file that was written to has other
// times.
func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.Mode() == b.Mode() && a.ModTime().Equal(b.ModTime())
}
