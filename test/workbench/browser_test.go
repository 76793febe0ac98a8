package workbench

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browserTime bounds the whole test.
const browserTime = 10 * time.Minute

// chromium finds a browser, or skips.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := osexec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium in PATH; the Debian package is chromium")
	return ""
}

// axe is axe-core's source.
func axe(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Skipf("axe-core is not installed; run `npm ci` in test/workbench: %v", err)
	}
	return string(b)
}

// complaints collects what the browser holds against a page.
type complaints struct {
	mu  sync.Mutex
	all []string
}

func (c *complaints) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, fmt.Sprintf(format, args...))
}

// take gives what was collected, and forgets it.
func (c *complaints) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	return all
}

// listen hears console messages, exceptions, violations of the policy, and requests that
// failed or went elsewhere.
func (c *complaints) listen(ctx context.Context, base string) error {
	return chromedp.Listen(ctx, func(ev any) {
		switch e := ev.(type) {
		case *runtime.EventConsoleAPICalled:
			c.add("console %s: %v", e.Type, e.Args)
		case *runtime.EventExceptionThrown:
			c.add("exception: %s", e.ExceptionDetails.Text)
		case *cdplog.EventEntryAdded:
			c.add("log %s %s: %s", e.Entry.Source, e.Entry.Level, e.Entry.Text)
		case *audits.EventIssueAdded:
			if d := e.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
				c.add("policy violated: %s %s", d.ViolatedDirective, d.BlockedURL)
			}
		case *network.EventLoadingFailed:
			c.add("not loaded: %s %s", e.Type, e.ErrorText)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, base) {
				c.add("a request to elsewhere: %s", e.Request.URL)
			}
		}
	})
}

// look is one way in which a page is looked at.
type look struct {
	name, scheme  string
	width, height int64
}

var looks = []look{{"light", "light", 1180, 860}, {"dark", "dark", 1180, 860}, {"narrow", "light", 360, 740}, {"narrow-dark", "dark", 360, 740}}

// at makes the tab a window of the look.
func (l look) at(ctx context.Context, t *testing.T) {
	t.Helper()
	_, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: l.height, DeviceScaleFactor: 1, Mobile: l.width < 500})
	if err == nil {
		_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// pages are every page of the scene, by the name of its picture.
func (s *scene) pages() []struct{ name, path string } {
	entry := func(task string) string { return fmt.Sprintf("/workbench?entry=%d", s.entries[task]) }
	return []struct{ name, path string }{
		{"timeline", "/workbench"},
		{"entry-edit", entry("edit")},
		{"entry-exec", entry("run")},
		{"entry-exec-failed", entry("run-fails")},
		{"entry-denied", entry("denied")},
		{"entry-refused", entry("escape")},
		{"entry-hostile", entry("notes")},
		{"entry-commit", entry("commit")},
		{"entry-diff", entry("diff")},
		{"entry-grep", entry("grep")},
		{"entry-pure", entry("echo")},
		{"entry-genesis", "/workbench?entry=0"},
		{"object", "/workbench?object=" + s.object("edit") + "&payload=1"},
		{"object-closed", "/workbench?object=" + s.object("edit")},
		{"world", "/workbench?world=" + s.head()},
		{"episodes", "/workbench/episodes"},
		{"episode", "/workbench/episodes/fix-fields"},
		{"transitions", "/workbench/transitions"},
		{"approvals", "/workbench/approvals"},
		{"calls", "/workbench/calls"},
		{"task", "/workbench/calls/a2a:fix-fields:edit"},
		{"found", "/workbench/find?q=" + s.source("edit")},
		{"past-the-end", "/workbench?from=100000"},
	}
}

func TestEveryPageInABrowser(t *testing.T) {
	path, script := chromium(t), axe(t)
	s := play(t)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-gpu", true))
	ctx, cancel := context.WithTimeout(t.Context(), browserTime)
	defer cancel()
	ctx, cancelAlloc := chromedp.NewExecAllocator(ctx, opts...)
	defer cancelAlloc()
	ctx, cancelTab := chromedp.NewContext(ctx)
	defer cancelTab()
	var heard complaints
	if err := heard.listen(ctx, s.URL); err != nil {
		t.Fatalf("the browser did not start: %v", err)
	}
	for _, enable := range []cdp.Command[cdp.Empty, cdp.Empty]{cdplog.Enable, audits.Enable} {
		if _, err := chromedp.Call(ctx, enable, cdp.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join("..", "..", "bin", "workbench")
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, pg := range s.pages() {
		for _, l := range looks {
			t.Run(pg.name+"/"+l.name, func(t *testing.T) {
				l.at(ctx, t)
				visit(ctx, t, s.URL+pg.path, 200)
				picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(out, pg.name+"-"+l.name+".png"), picture, 0o644); err != nil {
					t.Fatal(err)
				}
				checkFits(t, ctx, l)
				checkAxe(t, ctx, script)
				for _, c := range heard.take() {
					t.Error(c)
				}
			})
		}
	}
	t.Run("keyboard", func(t *testing.T) { checkKeyboard(t, ctx, s.URL) })
	t.Run("refusals", func(t *testing.T) {
		heard.take()
		for _, p := range []string{"/workbench?nothing=1", "/workbench?entry=99999", "/workbench/episodes/none", "/workbench/calls/a2a:x:y"} {
			looks[0].at(ctx, t)
			visit(ctx, t, s.URL+p, 0)
			checkAxe(t, ctx, script)
		}
	})
}

// visit opens a page, which must be answered with a status; 0 is any refusal.
func visit(ctx context.Context, t *testing.T, url string, status int64) {
	t.Helper()
	resp, err := chromedp.Run(ctx, chromedp.NavigateResponse(url))
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	if resp.Status != status && (status != 0 || resp.Status < 400) {
		t.Fatalf("%s: HTTP %d", url, resp.Status)
	}
}

// checkFits: nothing makes the page wider than the window.
func checkFits(t *testing.T, ctx context.Context, l look) {
	t.Helper()
	wide := eval[int64](ctx, t, `document.documentElement.scrollWidth`)
	if wide > l.width {
		t.Errorf("the page is %d wide in a window of %d", wide, l.width)
	}
}

// checkAxe holds the page to every rule of WCAG A and AA that axe-core knows, and to its
// best practices.
func checkAxe(t *testing.T, ctx context.Context, script string) {
	t.Helper()
	type node struct {
		HTML           string `json:"html"`
		FailureSummary string `json:"failureSummary"`
	}
	type violation struct {
		ID    string `json:"id"`
		Help  string `json:"help"`
		Nodes []node `json:"nodes"`
	}
	eval[chromedp.Void](ctx, t, script)
	found := eval[[]violation](ctx, t,
		`axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => r.violations)`,
		chromedp.EvalAwaitPromise)
	for _, v := range found {
		for _, n := range v.Nodes[:min(len(v.Nodes), 3)] {
			t.Errorf("axe %s: %s\n%.300s\n%s", v.ID, v.Help, n.HTML, n.FailureSummary)
		}
	}
}

// eval runs a script through the devtools, which the page's policy does not concern.
func eval[T any](ctx context.Context, t *testing.T, script string, opts ...chromedp.EvaluateOption) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, opts...))
	if err != nil {
		t.Fatalf("%.80s: %v", script, err)
	}
	return v
}
