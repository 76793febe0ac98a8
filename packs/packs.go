// Package packs holds the transitions that ship inside the binary: each pack is a folder
// with a manifest, the sources it names, and tests that run them under the real engine and
// handlers. It owns what these tools are called, how they read to an agent and what they
// refuse by themselves; it publishes nothing and performs nothing. Answers
// spec/12-workspace.md and spec/04-capsule.md.
package packs

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

//go:embed */manifest.json */*.star
var tree embed.FS

// manifestFile is the manifest's name in a pack's folder.
const manifestFile = "manifest.json"

// apart are the packs that are published only when they are named: those for learning,
// trying out and tests, and magisterium, which is for another use than work in repositories.
// They can be loaded, and All leaves them out.
var apart = []string{"demo", "examples", "magisterium"}

// Pack is one folder: the manifest's text, and the files it may name, by their paths
// relative to it.
type Pack struct {
	Name     string
	Manifest []byte
	Files    map[string][]byte
}

// Load is the pack of a name; one that does not ship is KindNotFound.
func Load(name string) (Pack, error) {
	if !slices.Contains(names(), name) {
		return Pack{}, world.Errorf(world.KindNotFound, "packs.Load", "no pack %q ships with this daemon; there are %v", name, names())
	}
	return load(name), nil
}

// Names lists the packs that ship, in order.
func Names() []string { return names() }

// All is every pack that is published without being named, in order.
func All() []Pack {
	var all []Pack
	for _, name := range names() {
		if !slices.Contains(apart, name) {
			all = append(all, load(name))
		}
	}
	return all
}

// Trusted is the hashes of all sources that ship, examples too: those that an engine may
// run in the daemon's own process.
func Trusted() map[world.Ref]bool {
	trusted := make(map[world.Ref]bool)
	for _, name := range names() {
		for _, text := range load(name).Files {
			trusted[hashref.Sum(text)] = true
		}
	}
	return trusted
}

// names is the folders, in order.
func names() []string {
	var all []string
	for _, d := range readDir(".") {
		if d.IsDir() {
			all = append(all, d.Name())
		}
	}
	return all
}

func load(name string) Pack {
	p := Pack{Name: name, Manifest: readFile(path.Join(name, manifestFile)), Files: make(map[string][]byte)}
	for _, d := range readDir(name) {
		if d.Name() != manifestFile {
			p.Files[d.Name()] = readFile(path.Join(name, d.Name()))
		}
	}
	return p
}

// readDir and readFile read what was compiled in, which is there or the build is broken.
func readDir(name string) []fs.DirEntry {
	entries, err := tree.ReadDir(name)
	if err != nil {
		panic(fmt.Sprintf("packs: %v", err))
	}
	return entries
}

func readFile(name string) []byte {
	b, err := tree.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("packs: %v", err))
	}
	return b
}
