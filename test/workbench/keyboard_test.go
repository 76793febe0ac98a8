package workbench

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// focusOrder gives, in the order of the document, what can be focused, and marks each.
const focusOrder = `[...document.querySelectorAll('a[href], button, input, summary, [tabindex="0"]')]
	.filter(e => e.checkVisibility() && !e.disabled).map((e, i) => { e.dataset.order = i; return i })`

// focused is the mark of what has the focus, and whether that is seen.
const focused = `(() => { const e = document.activeElement, s = getComputedStyle(e), n = e.querySelector('.node');
	return {order: +(e.dataset.order ?? -1), seen: s.outlineStyle !== 'none' || !!n && parseFloat(getComputedStyle(n).strokeWidth) >= 3} })()`

// checkKeyboard: Tab goes through everything that can be used, in the order in which it
// stands, and what has the focus is seen. The first is the way past the menu.
func checkKeyboard(t *testing.T, ctx context.Context, base string) {
	for _, path := range []string{"/workbench", "/workbench?entry=6", "/workbench/transitions"} {
		looks[0].at(ctx, t)
		visit(ctx, t, base+path, 200)
		all := eval[[]int](ctx, t, focusOrder)
		if len(all) < 10 {
			t.Fatalf("%s: only %d things can be focused", path, len(all))
		}
		for i := range all {
			press(ctx, t, kb.Tab)
			now := eval[focus](ctx, t, focused)
			if now.Order != i || !now.Seen {
				t.Fatalf("%s: Tab number %d leads to number %d of the page, seen %v", path, i+1, now.Order, now.Seen)
			}
		}
	}
	// The first link leads past the menu.
	visit(ctx, t, base+"/workbench", 200)
	press(ctx, t, kb.Tab)
	press(ctx, t, kb.Enter)
	if at := eval[string](ctx, t, `document.activeElement.id`); at != "main" {
		t.Errorf("the first link leads to %q", at)
	}
}

// focus is what has the focus: its place in the order, and whether it is seen.
type focus struct {
	Order int  `json:"order"`
	Seen  bool `json:"seen"`
}

func press(ctx context.Context, t *testing.T, key string) {
	t.Helper()
	if err := chromedp.Do(ctx, chromedp.KeyEvent(key)); err != nil {
		t.Fatal(err)
	}
}
