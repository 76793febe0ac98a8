// Package model is the model-based test: stories of random steps (calls over both agent
// doors, messages of users, commits and reads over REST, sessions minted, revoked and expired, transitions
// published and removed, callers that hang up, stores that do not know, restarts and kills)
// are lived through by the real coordinator, broker and store over a SQLite file and by a
// model of a few hundred lines: a log that is a slice, budgets that are integers. After each
// step the two are compared, and at the end of a story the whole store proves itself and is
// run again. A story that fails is made as short as it can be, and printed as lines that
// TestStories takes. It answers spec/02-store.md, spec/06-effects.md and spec/07-calls.md.
package model

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

var (
	stories = flag.Int("stories", 2000, "how many stories are lived through")
	onDisk  = flag.Bool("disk", false, "keep the stores of stories on the disk, not in memory")
)

// How many steps a story has.
const minSteps, maxSteps = 8, 40

// racedShare is which part of the stories is lived through under the race detector too.
const racedShare = 20

// TestModelWithoutDetector lives through all the stories in a test built without the race
// detector, where this one is built with it.
func TestModelWithoutDetector(t *testing.T) {
	if !raced {
		return // TestModel does
	}
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "model.test")
	for _, args := range [][]string{{"go", "test", "-c", "-o", plain, "."}, {plain, "-test.run", "^TestModel$", "-test.v", "-stories", strconv.Itoa(*stories)}} {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		t.Logf("%s", out)
	}
}

// TestModel: whatever is done in whatever order, the world is as the model says.
func TestModel(t *testing.T) {
	t.Parallel()
	lives := *stories
	if raced {
		lives = max(1, lives/racedShare)
	}
	for name, value := range map[string]string{"rapid.checks": strconv.Itoa(lives), "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	base := newBase(t)
	counted := map[string]int{}
	var failed []step
	defer func() {
		if failed != nil {
			short, err := base.shorten(t, failed)
			t.Logf("%v\n\nits shortest form:\n%s", err, storyText(short))
		}
	}()
	lived := rapid.SliceOfN(steps(), minSteps, maxSteps)
	rapid.Check(t, func(rt *rapid.T) {
		story := lived.Draw(rt, "story")
		if err := base.live(t, story, counted); err != nil {
			failed = story
			rt.Fatalf("%v\n\nthe story, for testdata/stories:\n%s", err, storyText(story))
		}
	})
	total := 0
	for _, n := range counted {
		total += n
	}
	t.Logf("%d steps: %v", total, counted)
	if t.Failed() || lives < 1000 {
		return
	}
	for _, must := range outcomes {
		if counted[must] == 0 {
			t.Errorf("of %d steps none ended as %q: the stories miss it", total, must)
		}
	}
}

// shorten drops what a story does not need in order to fail.
func (b *base) shorten(t *testing.T, story []step) ([]step, error) {
	err := b.live(t, story, map[string]int{})
	for i := len(story) - 1; i >= 0; i-- {
		without := slices.Delete(slices.Clone(story), i, i+1)
		if e := b.live(t, without, map[string]int{}); e != nil {
			story, err = without, e
		}
	}
	return story, err
}

// TestStories lives through the stories in testdata/stories, each of which once told of a
// fault, or stands for a meeting of steps that chance seldom brings.
func TestStories(t *testing.T) {
	base := newBase(t)
	files, err := filepath.Glob("testdata/stories/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d stories, %v", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".jsonl"), func(t *testing.T) {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := base.live(t, readStory(t, text), map[string]int{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func readStory(t *testing.T, text []byte) []step {
	t.Helper()
	var story []step
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "//") {
			continue
		}
		var s step
		if err := json.Unmarshal([]byte(line), &s, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		story = append(story, s)
	}
	return story
}

func storyText(story []step) string {
	var b strings.Builder
	for _, s := range story {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// live lives through one story in a bubble of time. The error says at which step the world
// and the model part.
func (b *base) live(t *testing.T, story []step, counted map[string]int) (err error) {
	dir, derr := os.MkdirTemp(b.dir, "story")
	if derr != nil {
		return derr
	}
	defer os.RemoveAll(dir)
	synctest.Test(t, func(t *testing.T) {
		w, werr := b.newWorld(dir)
		if werr != nil {
			err = werr
			return
		}
		defer func() {
			if cerr := w.close(); err == nil {
				err = cerr
			}
		}()
		for _, s := range preamble {
			if _, err = w.take(s); err != nil {
				return
			}
		}
		for i, s := range story {
			said, serr := w.take(s)
			if serr != nil {
				err = fmt.Errorf("step %d %s\n%w", i+1, s, serr)
				return
			}
			counted[said]++
		}
		if _, err = w.take(step{Do: "kill"}); err != nil {
			err = fmt.Errorf("killed at the end: %w", err)
			return
		}
		if eerr := w.whole(t); eerr != nil {
			err = fmt.Errorf("at the end: %w", eerr)
		}
	})
	return err
}
