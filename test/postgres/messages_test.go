package postgres

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ailang.dev/world/host/authority"
	store_pg "ailang.dev/world/host/store/postgres"
	"ailang.dev/world/host/worldtest"
)

// userPlans let users write.
const userPlans = `plans:
  pro:
    tasks: true
    grants: ["Skills.Use=public:unlimited", "Workspace.Write=worktree:unlimited"]
`

// post sends one request of a user to a daemon's task endpoint.
func (d *daemon) post(token, method, params string) (string, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	req, err := http.NewRequest(http.MethodPost, d.url+"/api/v1/a2a", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// TestOneMessageAtTwoDaemons sends each message of a user to two daemons at once, as a proxy does
// that lost an answer: both tell the same task, of one entry, and its effect is done once.
func TestOneMessageAtTwoDaemons(t *testing.T) {
	const messages = 24
	f := newFleet(t, "")
	config := filepath.Join(f.dir, "config.yaml")
	user := authority.User{Subject: "ada"}.Episode()
	tree := filepath.Join(f.dir, "ws", user)
	if err := os.MkdirAll(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{config: userPlans, filepath.Join(tree, shared): end} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.run(f.bin, "transitions", "publish", "--db", f.db, "--manifest", filepath.Join("..", "..", "packs", "demo", "manifest.json"), "--yes")
	two := []*daemon{f.start("--config", config), f.start("--config", config)}
	token := strings.TrimSpace(f.run(f.bin, "token", "mint", "--db", f.db, "--subject", "ada", "--plan", "pro", "--ttl", "8h", "--yes"))
	ids := map[string]bool{}
	for i := range messages {
		skill, data := "demo.answer", fmt.Sprintf(`{"question":"m%d"}`, i)
		if i%2 == 0 {
			skill, data = "workspace-edit", fmt.Sprintf(`{"path":%q,"old_text":%q,"new_text":"m%d\n%s"}`, shared, end, i, end)
		}
		message := fmt.Sprintf(`{"message":{"role":"user","kind":"message","messageId":"m%d","metadata":{"skillId":%q},"parts":[{"kind":"data","data":%s}]}}`, i, skill, data)
		var got [2]string
		var wg sync.WaitGroup
		for k, d := range two {
			wg.Go(func() {
				var err error
				if got[k], err = d.post(token, "message/send", message); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got[0] != got[1] || !strings.Contains(got[0], `"state":"completed"`) {
			t.Fatalf("one says\n%s\nthe other\n%s", got[0], got[1])
		}
		_, id, _ := strings.Cut(got[0], `"kind":"task","id":"`)
		id, _, _ = strings.Cut(id, `"`)
		ids[id] = true
		for k, d := range two {
			if kept, err := d.post(token, "tasks/get", fmt.Sprintf(`{"id":%q}`, id)); err != nil || kept != got[0] {
				t.Errorf("daemon %d keeps\n%s (%v)\ntold was\n%s", k, kept, err, got[0])
			}
		}
	}
	s, err := store_pg.OpenReadOnly(ctx, store_pg.Options{URL: f.db})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	worldtest.CheckAll(t, s)
	head, err := s.Head(ctx)
	if err != nil || head.Next != 1+messages || len(ids) != messages {
		t.Errorf("%d entries, %d tasks, %v", head.Next, len(ids), err)
	}
	text, err := os.ReadFile(filepath.Join(tree, shared))
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		if n := strings.Count("\n"+string(text), fmt.Sprintf("\nm%d\n", i)); n != (i+1)%2 {
			t.Errorf("message %d was done %d times", i, n)
		}
	}
	spent, err := s.Spent(ctx, user, "Workspace.Write", "worktree")
	if err != nil || spent != messages/2 {
		t.Errorf("spent %d, %v", spent, err)
	}
}
