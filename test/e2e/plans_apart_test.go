package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/provenance"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

// TestPlansOfOneUserStayApart has one user call by tokens of two plans at once: each call is
// under the grants of its own token's plan, also right after a start.
func TestPlansOfOneUserStayApart(t *testing.T) {
	const callers, each = 8, 10
	ask := func(budget int64, daily bool) authority.PlanGrant {
		return authority.PlanGrant{Grant: world.Grant{Effect: "Human.Approve", Scope: "operator", Budget: budget}, Daily: daily}
	}
	w := worldtest.Start(t, worldtest.Options{NoPacks: true, NoWorkspace: true, Plans: authority.Plans{
		"few":  {Name: "few", Tasks: true, Grants: []authority.PlanGrant{ask(1, true)}},
		"many": {Name: "many", Tasks: true, Grants: []authority.PlanGrant{ask(1_000_000, false)}},
	}})
	w.PublishPack("human")
	plans := []string{"few", "many"}
	tokens := []string{w.MintToken("ada", "few", "1h"), w.MintToken("ada", "many", "1h")}
	for round := range 2 {
		w.Restart()
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for n := range each {
					plan := (i + n) % 2
					id := fmt.Sprintf("%s-%d-%d-%d", plans[plan], round, i, n)
					req, err := http.NewRequest(http.MethodPost, w.URL+"/api/v1/a2a", strings.NewReader(strings.Replace(sendMessage(id, "approval-request", id),
						`{"kind":"text","text":`+fmt.Sprintf("%q", id)+`}`, `{"kind":"data","data":{"question":`+fmt.Sprintf("%q", id)+`}}`, 1)))
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("Authorization", "Bearer "+tokens[plan])
					req.Header.Set("Content-Type", "application/json")
					resp, err := http.DefaultClient.Do(req)
					if err != nil {
						t.Error(err)
						return
					}
					if text := readAll(t, resp); resp.StatusCode != 200 || !strings.Contains(text, `"kind":"task"`) {
						t.Errorf("%d %s", resp.StatusCode, text)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	head, err := w.Core.Store.Head(ctx)
	if err != nil || head.Next != 1+2*callers*each {
		t.Fatalf("%+v, %v", head, err)
	}
	for i := int64(1); i < head.Next; i++ {
		c, err := provenance.Explain(ctx, w.Core.Store, i)
		if err != nil {
			t.Fatal(err)
		}
		few := strings.Contains(string(c.Input), `"few-`)
		if few != (c.Session.Grants[0].Budget < 1000) {
			t.Errorf("entry %d: %s ran with %+v", i, c.Input, c.Session.Grants)
		}
		if !few && strings.Contains(string(c.Output), "denied:budget") {
			t.Errorf("entry %d: %s was denied: %s", i, c.Input, c.Output)
		}
	}
}
