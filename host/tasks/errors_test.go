package tasks

import (
	"net/http/httptest"
	"strings"
	"testing"

	"ailang.dev/world/host/world"
)

func TestPlanRequired(t *testing.T) {
	for want, plans := range map[string][]string{
		"Paid plan required: A2A needs a Pro, Organization or Enterprise plan":         {"enterprise", "organization", "pro"},
		"Paid plan required: A2A needs one of the plans gold, silver":                  {"gold", "silver"},
		"Paid plan required: A2A needs a plan that opens it, and this daemon has none": nil,
	} {
		if got := planRequired(plans); got.Message != want || got.Code != -32005 {
			t.Errorf("%v: %+v", plans, got)
		}
	}
}

func TestEchoIsBounded(t *testing.T) {
	for _, id := range []string{strings.Repeat("x", 1<<20), strings.Repeat("é", 1<<19)} {
		if got := skillNotFound(id).Message; len(got) > 2*maxEchoed || !strings.Contains(got, "…") {
			t.Errorf("%d bytes: %.80s", len(got), got)
		}
	}
}

// What went wrong in finding out who is calling is for the operator.
func TestDenialsTellNoCause(t *testing.T) {
	h := newHouse(t)
	w := httptest.NewRecorder()
	h.deny(&world.Error{Op: "test", Kind: world.KindInternal, Msg: "/secret/world.db cannot be read"}).Write(w)
	if got := w.Body.String(); strings.Contains(got, "secret") || !strings.Contains(got, errUnidentified.Message) {
		t.Errorf("%s", got)
	}
}
