package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"ailang.dev/world/host/world"
)

// checkWorkspaceRoot refuses a root under which an episode could reach what is not its
// own: one that is missing or a symlink, one that holds the store or lies inside its
// folder, and one with an episode that is a symlink.
func checkWorkspaceRoot(root, db string) error {
	st, err := os.Lstat(root)
	switch {
	case err != nil:
		return workspaceError(root, "cannot be used: %v", err)
	case st.Mode()&os.ModeSymlink != 0:
		return workspaceError(root, "is a symlink; name the folder it leads to")
	case !st.IsDir():
		return workspaceError(root, "is not a folder")
	}
	realRoot, err := realPath(root)
	if err != nil {
		return workspaceError(root, "cannot be used: %v", err)
	}
	storeDir, err := realPath(filepath.Dir(db))
	if err != nil {
		return workspaceError(root, "cannot be compared with the store's folder: %v", err)
	}
	if within(realRoot, storeDir) || within(storeDir, realRoot) {
		return workspaceError(root, "and the store's folder %s must not lie inside one another", storeDir)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return workspaceError(root, "cannot be read: %v", err)
	}
	for _, e := range entries {
		if world.CheckEpisode(e.Name()) == nil && e.Type()&os.ModeSymlink != 0 {
			return workspaceError(filepath.Join(root, e.Name()), "is a symlink; an episode's worktree must be a real folder")
		}
	}
	return nil
}

func workspaceError(path, format string, args ...any) error {
	return &world.Error{Op: "daemon.New", Kind: world.KindBadRequest, Subject: path,
		Msg: "workspace root " + path + " " + fmt.Sprintf(format, args...)}
}

// realPath is absolute and free of symlinks.
func realPath(p string) (string, error) {
	abs, err := filepath.Abs(p)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// within tells whether p is dir or lies below it.
func within(p, dir string) bool {
	rel, err := filepath.Rel(dir, p)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
