package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"ailang.dev/world/host/worldtest"
)

// browserTime bounds a test with a browser.
const browserTime = 2 * time.Minute

// TestTaskClientPage opens docs/task-client.html from a foreign origin in a real browser,
// which asks before it calls, and lets the page read answers and errors.
func TestTaskClientPage(t *testing.T) {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("SKIP: no Chromium in PATH; the Debian package is chromium")
	}
	w := worldtest.Start(t, worldtest.Options{NoPacks: true, NoWorkspace: true, Plans: testPlans()})
	w.PublishPack("demo")
	pages := httptest.NewServer(http.FileServer(http.Dir(filepath.Join("..", "..", "docs"))))
	t.Cleanup(pages.Close)
	at, err := url.Parse(pages.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), browserTime)
	defer cancel()
	ctx, cancelAlloc := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-gpu", true), chromedp.Flag("host-resolver-rules", "MAP page.example 127.0.0.1"))...)
	defer cancelAlloc()
	ctx, cancelTab := chromedp.NewContext(ctx)
	defer cancelTab()
	if _, err := chromedp.Run(ctx, chromedp.NavigateResponse("http://page.example:"+at.Port()+"/task-client.html")); err != nil {
		t.Fatalf("the browser did not start: %v", err)
	}
	// ask fills in the form, and gives what the page then says.
	ask := func(token, skill, text string) string {
		t.Helper()
		said, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(`new Promise((resolve) => {
			const $ = (id) => document.getElementById(id);
			$("endpoint").value = %q; $("token").value = %q; $("skill").value = %q; $("text").value = %q;
			const seen = new MutationObserver(() => {
				if ($("state").textContent === "asking…") return;
				seen.disconnect();
				setTimeout(() => resolve(location.origin + "\n" + $("state").textContent + "\n" + ($("answer").hidden ? "" : $("answer").textContent)));
			});
			seen.observe($("state"), { childList: true });
			$("ask").requestSubmit();
		})`, w.URL+"/api/v1/a2a", token, skill, text), chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		origin, said, _ := strings.Cut(said, "\n")
		if origin != "http://page.example:"+at.Port() {
			t.Fatalf("the page's origin is %s", origin)
		}
		return said
	}
	ada, bob := w.MintToken("ada", "enterprise", "1h"), w.MintToken("bob", "pro", "1h")
	for _, c := range []struct{ name, token, skill, want string }{
		{"answered", ada, "demo.answer", `"answer": "You asked: hello"`},
		{"refused", ada, "demo.fail", "-32602: Invalid params: skill \"demo.fail\" takes no text"},
		{"unknown skill", ada, "none", `200 -32002: Skill not found: "none"`},
		{"unknown token", "none", "demo.answer", "401 -32004: Unauthorized: "},
		{"no plan", w.MintToken("fred", "free", "1h"), "demo.answer", "403 -32005: Paid plan required"},
		{"first", bob, "demo.answer", ": completed"}, {"second", bob, "demo.answer", ": completed"}, {"third", bob, "demo.answer", ": completed"},
		{"rate", bob, "demo.answer", "(retry after "}, // read from a header, which is exposed
	} {
		if got := ask(c.token, c.skill, "hello"); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
