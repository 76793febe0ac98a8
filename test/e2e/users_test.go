package e2e

import (
	"context"
	"testing"
	"time"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

// usersStart is when the worlds of users begin: some hours before midnight.
var usersStart = time.Date(2026, 3, 1, 18, 0, 0, 0, time.UTC)

// testPlans are small enough to be used up.
func testPlans() authority.Plans {
	skills := authority.PlanGrant{Grant: world.Grant{Effect: "Skills.Use", Scope: "public", Budget: authority.Unlimited}}
	doing := authority.PlanGrant{Grant: world.Grant{Effect: "Test.Do", Scope: "bench", Budget: 2}, Daily: true}
	endless := authority.PlanGrant{Grant: world.Grant{Effect: "Test.Do", Scope: "bench", Budget: authority.Unlimited}}
	rates := func(burst int) map[string]authority.Rate {
		return map[string]authority.Rate{
			authority.ClassDefault:   {Requests: 6, Per: time.Minute, Burst: burst},
			authority.ClassExpensive: {Requests: 1, Per: time.Minute, Burst: 2},
		}
	}
	return authority.Plans{
		"free":       {Name: "free", Grants: []authority.PlanGrant{skills}, Rates: rates(2)},
		"pro":        {Name: "pro", Tasks: true, Grants: []authority.PlanGrant{skills, doing}, Rates: rates(3)},
		"enterprise": {Name: "enterprise", Tasks: true, Grants: []authority.PlanGrant{skills, endless}},
	}
}

// usersStage has users by every plan, skills for them, and a clock.
func usersStage(t *testing.T) *stage {
	c := &clock{}
	c.set(usersStart.Add(-2 * time.Hour))
	s := newStage(t, worldtest.Options{NoPacks: true, NoWorkspace: true, Now: c.read, Plans: testPlans()})
	s.publish("skills.json")
	s.PublishPack("demo")
	s.vars["EXPIRED"] = s.MintToken("eve", "pro", "1h")
	c.set(usersStart)
	for name, by := range map[string][2]string{
		"ADA": {"ada", "enterprise"}, "ADA2": {"ada", "enterprise"}, "BOB": {"bob", "pro"}, "FREE": {"fred", "free"}, "REVOKED": {"rick", "pro"},
	} {
		s.vars[name] = s.MintToken(by[0], by[1], "720h")
	}
	s.vars["SPACES"] = fill(1 << 20)
	s.mint("SESSION", "ep1", "Skills.Use=public:1")
	s.acts["revoke"] = func() string {
		if n, err := s.Ops.RevokeSubject(context.Background(), "rick"); err != nil || n != 1 {
			t.Errorf("revoked %d: %v", n, err)
		}
		return ""
	}
	s.acts["restart"] = func() string {
		s.Restart()
		s.vars["URL"] = s.URL
		return ""
	}
	for name, d := range map[string]time.Duration{
		"a second passes": time.Second, "59 seconds pass": 59 * time.Second, "10 seconds pass": 10 * time.Second, "9 seconds pass": 9 * time.Second,
		"a day passes": 24 * time.Hour, "all but a millisecond of a day passes": 24*time.Hour - time.Millisecond, "a millisecond passes": time.Millisecond,
		"six hours pass": 6 * time.Hour,
	} {
		s.acts[name] = func() string { c.set(c.read().Add(d)); return "" }
	}
	return s
}
