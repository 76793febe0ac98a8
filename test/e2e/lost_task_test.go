package e2e

import (
	"context"
	"net/http"
	"regexp"
	"testing"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/worldtest"
)

// TestALostTaskIsFoundAgain sends a message whose call was committed, but whose task was
// not kept, as after a crash between the two: it has the same task, and nothing runs again.
func TestALostTaskIsFoundAgain(t *testing.T) {
	s := newStage(t, worldtest.Options{NoPacks: true, NoWorkspace: true, Plans: testPlans()})
	s.publish("skills.json")
	ctx := context.Background()
	a := &actor{t, s.World, s.MintToken("ada", "enterprise", "1h")}
	send := func(text string) (int, string) {
		resp, body := a.do(http.MethodPost, "/api/v1/a2a", []byte(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","kind":"message","messageId":"m1",`+
			`"metadata":{"skillId":"skill-do"},"parts":[{"kind":"data","data":{"op":"`+text+`"}}]}}}`), "Content-Type", "application/json")
		return resp.StatusCode, string(body)
	}
	at := regexp.MustCompile(`"timestamp":"[^"]*"`)
	status, first := send("ok")
	if status != http.StatusOK || !regexp.MustCompile(`"state":"completed".*"entry_index":1`).MatchString(first) {
		t.Fatalf("%d %s", status, first)
	}
	kept, err := s.Core.Store.KeptAll(ctx, "task", 0, store.MaxPage)
	if err != nil || len(kept) != 1 {
		t.Fatalf("%d tasks are kept (%v)", len(kept), err)
	}
	spent := func() int64 {
		invocation := regexp.MustCompile(`task:(u-[0-9a-f]{32}):`).FindStringSubmatch(first)
		n, err := s.Core.Store.Spent(ctx, invocation[1], "Test.Do", "bench")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := spent(); n != 1 {
		t.Fatalf("spent %d", n)
	}
	for range 2 {
		if err := s.Core.Store.DropKept(ctx, "task", kept[0].Key); err != nil {
			t.Fatal(err)
		}
		if _, again := send("ok"); at.ReplaceAllString(again, "") != at.ReplaceAllString(first, "") {
			t.Errorf("again\n%s\nfirst\n%s", again, first)
		}
		s.Restart()
	}
	if err := s.Core.Store.DropKept(ctx, "task", kept[0].Key); err != nil {
		t.Fatal(err)
	}
	if _, other := send("refuse"); !regexp.MustCompile(`-32602.*other content`).MatchString(other) {
		t.Errorf("other content: %s", other)
	}
	head, err := s.Core.Store.Head(ctx)
	if err != nil || head.Next != 2 || spent() != 1 {
		t.Errorf("%d entries, spent %d (%v)", head.Next-1, spent(), err)
	}
}
