package packs

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed magisterium/starter/*.md
var starter embed.FS

// Starter is the documents that ship for the corpus of pack magisterium's skills: Markdown
// files at its top.
func Starter() fs.FS {
	sub, err := fs.Sub(starter, "magisterium/starter")
	if err != nil { // the path is fixed
		panic(fmt.Sprintf("packs: %v", err))
	}
	return sub
}
