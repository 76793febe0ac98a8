package kill

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

// noStep is a step that no call reaches: the daemon serves on.
const noStep = "none"

// killPlans let users write, and count no calls.
func killPlans() authority.Plans {
	grant := func(effect, scope string) authority.PlanGrant {
		return authority.PlanGrant{Grant: world.Grant{Effect: effect, Scope: scope, Budget: authority.Unlimited}}
	}
	return authority.Plans{"pro": {Name: "pro", Tasks: true, Grants: []authority.PlanGrant{
		grant(authority.SkillsEffect, authority.SkillsScope), grant("Workspace.Write", "worktree"),
	}}}
}

// post sends one request of a user to the task endpoint.
func (s *site) post(token, method, params string) (string, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	req, err := http.NewRequest(http.MethodPost, s.url+"/api/v1/a2a", bytes.NewReader([]byte(body)))
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

// TestKilledBeforeATaskIsKept kills the daemon before the commit of a message's call, and
// between the commit and the keeping of its task. Nothing was told; the same message has one
// task for ever, and what was done is done once.
func TestKilledBeforeATaskIsKept(t *testing.T) {
	s := newSite(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.run(s.bin, "transitions", "publish", "--db", s.db, "--manifest", filepath.Join("..", "..", "packs", "demo", "manifest.json"), "--yes")
	token := strings.TrimSpace(s.run(s.bin, "token", "mint", "--db", s.db, "--subject", "ada", "--plan", "pro", "--ttl", "8h", "--yes"))
	user := authority.User{Subject: "ada"}.Episode()
	tree := filepath.Join(s.dir, "ws", user)
	if err := os.MkdirAll(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(tree, "log.txt")
	if err := os.WriteFile(log, []byte(end), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		step   string
		effect bool
		told   string // what the resend says
		before int64  // entries that the kill left
		after  int64  // entries after the resends
	}{
		{"call.before-commit", false, `"state":"completed"`, 0, 1},
		{"call.committed", false, `"state":"completed"`, 1, 1},
		{"call.before-commit", true, "effects were requested but the invocation was not confirmed committed", 0, 0},
		{"call.committed", true, `"state":"completed"`, 1, 1},
	} {
		t.Run(fmt.Sprint(tt.step, " effect ", tt.effect), func(t *testing.T) {
			s.t = t
			line := fmt.Sprint("message-", i)
			skill, data := "demo.answer", fmt.Sprintf(`{"question":%q}`, line)
			if tt.effect {
				skill, data = "workspace-edit", fmt.Sprintf(`{"path":"log.txt","old_text":%q,"new_text":%q}`, end, line+"\n"+end)
			}
			message := fmt.Sprintf(`{"message":{"role":"user","kind":"message","messageId":%q,"metadata":{"skillId":%q},"parts":[{"kind":"data","data":%s}]}}`, line, skill, data)
			entries := s.taskEntries(t)
			s.launch(self, stepVerb, tt.step, s.db, filepath.Join(s.dir, "ws"))
			if got, err := s.post(token, "message/send", message); err == nil {
				t.Fatalf("the message was answered: %s", got)
			}
			s.cmd.Wait()
			if got := s.taskEntries(t) - entries; got != tt.before {
				t.Fatalf("the kill left %d entries, want %d", got, tt.before)
			}
			s.launch(self, stepVerb, noStep, s.db, filepath.Join(s.dir, "ws"))
			defer s.kill()
			send := func(method, params string) string {
				text, err := s.post(token, method, params)
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			first := send("message/send", message)
			if !strings.Contains(first, tt.told) || !strings.Contains(first, `"kind":"task"`) {
				t.Errorf("the resend says %s", first)
			}
			if again := send("message/send", message); again != first {
				t.Errorf("again\n%s\nfirst\n%s", again, first)
			}
			_, id, _ := strings.Cut(first, `"kind":"task","id":"`)
			id, _, _ = strings.Cut(id, `"`)
			if got := send("tasks/get", fmt.Sprintf(`{"id":%q}`, id)); got != first {
				t.Errorf("tasks/get\n%s\nfirst\n%s", got, first)
			}
			if other := send("message/send", strings.ReplaceAll(message, skill, "demo.slow")); !strings.Contains(other, "-32602") {
				t.Errorf("other content: %s", other)
			}
			s.kill()
			if got := s.taskEntries(t) - entries; got != tt.after {
				t.Errorf("%d entries after the resends, want %d", got, tt.after)
			}
			text, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			if done := strings.Count(string(text), line+"\n"); tt.effect && done != 1 {
				t.Errorf("the effect was done %d times", done)
			}
		})
	}
}

// taskEntries counts the log, of a store that proves itself.
func (s *site) taskEntries(t *testing.T) int64 {
	t.Helper()
	db, err := sqlite.Open(context.Background(), sqlite.Options{Path: s.db, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	worldtest.CheckAll(t, db)
	head, err := db.Head(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return head.Next
}
