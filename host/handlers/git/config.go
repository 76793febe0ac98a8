package git

import (
	"context"
	"path/filepath"
	"strings"
)

// ourConfig is the whole configuration that git runs with, beside what settings adds. What
// git would do anyway is spelled out where doing otherwise would run something, reach the
// network, or read or write elsewhere. Messages hold no control character, so that none of
// their lines is a comment.
const ourConfig = `	bare = false
	hooksPath = /dev/null
	fsmonitor = false
	untrackedCache = false
	splitIndex = false
	commitGraph = false
	useReplaceRefs = false
	attributesFile = /dev/null
	excludesFile = /dev/null
	pager = cat
	editor = :
	sshCommand = false
	askPass = false
	logAllRefUpdates = false
	commentChar = "` + "\x1f" + `"
	autocrlf = false
	safecrlf = false
	quotePath = true
	protectHFS = true
	protectNTFS = true
	bigFileThreshold = 16m
	packedGitWindowSize = 32m
	packedGitLimit = 256m
	deltaBaseCacheLimit = 64m
` + durable + `[gc]
	auto = 0
[maintenance]
	auto = false
[protocol]
	allow = never
[credential]
	helper =
[submodule]
	recurse = false
[diff]
	ignoreSubmodules = all
	renameLimit = 200
	submodule = short
	algorithm = default
[log]
	showSignature = false
	mailmap = false
[commit]
	gpgSign = false
[gpg]
	program = false
[i18n]
	logOutputEncoding = UTF-8
[color]
	ui = false
[advice]
	detachedHead = false
[trailer]
	separators = :
`

// durable is that what a commit is made of, and the branch that leads to it, are on disk when
// git ends: by itself git leaves that to the system, and a power cut would leave an answered
// commit, and the branch with it, empty. Many objects are flushed as one.
const durable = `	fsync = committed,reference
	fsyncMethod = batch
`

// durableOld is durable in the words of git before 2.36, which has none for branches.
const durableOld = `	fsyncObjectFiles = true
`

// fleeting is the same for what goes with the call, as environment.
var fleeting = []string{"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=core.fsync", "GIT_CONFIG_VALUE_0=none",
	"GIT_CONFIG_KEY_1=core.fsyncObjectFiles", "GIT_CONFIG_VALUE_1=false"}

// facts are settings that git itself wrote when it made the repository, of what the file
// system can do and how objects are named. They are asked of the repository's configuration
// by name, and taken only with these values.
var facts = map[string]struct{ section, name string }{
	"core.filemode":          {"core", "fileMode"},
	"core.symlinks":          {"core", "symlinks"},
	"core.ignorecase":        {"core", "ignoreCase"},
	"core.precomposeunicode": {"core", "precomposeUnicode"},
}

// extensions are those of a repository's format that change nothing of what we do.
var extensions = map[string]bool{"noop": true, "worktreeconfig": true, "preciousobjects": true, "relativeworktrees": true, "partialclone": true}

// settings is the text of our configuration for this repository.
func (c *call) settings(ctx context.Context) (string, error) {
	config := filepath.Join(c.repo.common, "config")
	if _, err := smallFile(config, maxConfig); err != nil {
		return "", untrusted(c.repo.common, "the repository has no configuration that can be read")
	}
	// Of the file, git here reads names and values; includes are not followed.
	text, err := c.ask(ctx, run{args: []string{"config", "--file", config, "--no-includes", "--null", "--get-regexp",
		`^(core\.(repositoryformatversion|filemode|symlinks|ignorecase|precomposeunicode)|extensions\..*)$`}})
	var none *failure
	if err != nil && !(asFailure(err, &none) && none.code == 1) {
		return "", err
	}
	version, own := "0", map[string]string{}
	for item := range strings.SplitSeq(strings.TrimSuffix(text, "\x00"), "\x00") {
		key, value, _ := strings.Cut(item, "\n")
		value = strings.ToLower(value)
		ext, isExt := strings.CutPrefix(key, "extensions.")
		switch {
		case key == "core.repositoryformatversion":
			version = value
		case isExt && ext == "objectformat":
			c.sha256 = value == "sha256"
			if value != "sha1" && value != "sha256" {
				return "", untrusted(c.repo.common, "the repository names its objects in a way that is not known here")
			}
		case isExt && ext == "refstorage" && value == "files":
		case isExt && !extensions[ext]:
			return "", untrusted(c.repo.common, "the repository has the extension %s, which is not served", quoted(ext))
		case facts[key].name != "" && (value == "true" || value == "false"):
			own[key] = value
		}
	}
	if version != "0" && version != "1" {
		return "", untrusted(c.repo.common, "the repository is of a format that is not known here")
	}
	var b strings.Builder
	if c.sha256 {
		b.WriteString("[extensions]\n\tobjectFormat = sha256\n[core]\n\trepositoryFormatVersion = 1\n")
	} else {
		b.WriteString("[core]\n\trepositoryFormatVersion = 0\n")
	}
	for key, value := range own {
		b.WriteString("\t" + facts[key].name + " = " + value + "\n")
	}
	ours := ourConfig
	if c.h.tool.old {
		ours = strings.Replace(ours, durable, durableOld, 1)
	}
	return b.String() + ours, nil
}
