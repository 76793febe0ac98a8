package config

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/world"
)

// plan is what users of it have.
type plan struct {
	Tasks  bool            `yaml:"tasks"`
	Grants []string        `yaml:"grants"`
	Rates  map[string]pace `yaml:"rates"`
}

type pace struct {
	Requests whole  `yaml:"requests"`
	Per      string `yaml:"per"`
	Burst    *whole `yaml:"burst"`
}

// plansSection names the plans; none leaves those that are built in.
type plansSection map[string]plan

func (s plansSection) build(src *source) (authority.Plans, error) {
	if len(s) == 0 {
		if src.line([]string{"plans"}) > 0 {
			return nil, src.at([]string{"plans"}, "names no plan; leave the section out for those that are built in")
		}
		return nil, nil
	}
	if len(s) > authority.MaxPlans {
		return nil, src.at([]string{"plans"}, "has more than %d plans", authority.MaxPlans)
	}
	all := make(authority.Plans, len(s))
	for _, name := range slices.Sorted(maps.Keys(s)) {
		at := []string{"plans", name}
		if why := authority.CheckPlanName(name); why != "" {
			return nil, src.at(at, "the name %s", why)
		}
		p := authority.Plan{Name: name, Tasks: s[name].Tasks, Rates: make(map[string]authority.Rate)}
		if len(s[name].Grants) > authority.MaxGrants {
			return nil, src.at(append(at, "grants"), "has more than %d grants", authority.MaxGrants)
		}
		for i, text := range s[name].Grants {
			g, err := planGrant(text)
			if err != nil {
				return nil, src.at(append(at, "grants", strconv.Itoa(i)), "%v", err)
			}
			p.Grants = append(p.Grants, g)
		}
		for _, class := range slices.Sorted(maps.Keys(s[name].Rates)) {
			r, err := s[name].Rates[class].build(src, append(at, "rates", class), class)
			if err != nil {
				return nil, err
			}
			p.Rates[class] = r
		}
		all[name] = p
	}
	return all, nil
}

// planGrant reads EFFECT=SCOPE:BUDGET, where the budget is a number, a number and "/day", or
// "unlimited".
func planGrant(text string) (authority.PlanGrant, error) {
	bare, daily := strings.CutSuffix(text, "/day")
	if rest, endless := strings.CutSuffix(bare, ":unlimited"); endless && !daily {
		bare = rest + ":" + strconv.FormatInt(authority.Unlimited, 10)
	}
	g, err := world.ParseGrant(bare)
	if err != nil {
		return authority.PlanGrant{}, errors.New(strconv.Quote(text) + " must be EFFECT=SCOPE:BUDGET, where the budget is a number, a number and /day, or unlimited, for example Corpus.Search=starter:1000/day")
	}
	return authority.PlanGrant{Grant: g, Daily: daily}, nil
}

func (p pace) build(src *source, at []string, class string) (authority.Rate, error) {
	r := authority.Rate{Requests: int(p.Requests), Burst: int(p.Requests)}
	if p.Burst != nil {
		r.Burst = int(*p.Burst)
	}
	if class != authority.ClassDefault && class != authority.ClassExpensive {
		return r, src.at(at, "the classes are %s and %s", authority.ClassDefault, authority.ClassExpensive)
	}
	var err error
	if r.Per, err = duration(p.Per); err != nil {
		return r, src.at(append(at, "per"), "%v", err)
	}
	if why := r.Check(); why != "" {
		return r, src.at(at, "%s", why)
	}
	return r, nil
}

// issuer is one OpenID Connect provider.
type issuer struct {
	Issuer      string      `yaml:"issuer"`
	Audience    string      `yaml:"audience"`
	Algorithms  []string    `yaml:"algorithms"`
	JWKS        string      `yaml:"jwks"`
	Leeway      string      `yaml:"leeway"`
	PlanClaim   string      `yaml:"plan_claim"`
	Plans       []claimPlan `yaml:"plans"`
	DefaultPlan string      `yaml:"default_plan"`
}

type claimPlan struct {
	Value string `yaml:"value"`
	Plan  string `yaml:"plan"`
}

// buildIssuers checks issuers, and that the plans they lead to are there.
func buildIssuers(src *source, list []issuer, plans authority.Plans) ([]authority.IssuerConfig, error) {
	if plans == nil {
		plans = authority.DefaultPlans()
	}
	if len(list) > authority.MaxIssuers {
		return nil, src.at([]string{"issuers"}, "has more than %d issuers", authority.MaxIssuers)
	}
	var all []authority.IssuerConfig
	for i, is := range list {
		at := []string{"issuers", strconv.Itoa(i)}
		c := authority.IssuerConfig{URL: is.Issuer, Audience: is.Audience, Algorithms: is.Algorithms, JWKS: is.JWKS, PlanClaim: is.PlanClaim, DefaultPlan: is.DefaultPlan}
		if is.Leeway != "" {
			var err error
			if c.Leeway, err = duration(is.Leeway); err != nil {
				return nil, src.at(append(at, "leeway"), "%v", err)
			}
		}
		known := func(name, key string) error {
			if _, there := plans[name]; name != "" && !there {
				return src.at(append(at, key), "there is no plan %q; there are %s", name, strings.Join(plans.Names(), ", "))
			}
			return nil
		}
		if err := known(is.DefaultPlan, "default_plan"); err != nil {
			return nil, err
		}
		for _, p := range is.Plans {
			if err := known(p.Plan, "plans"); err != nil {
				return nil, err
			}
			c.Plans = append(c.Plans, authority.ClaimPlan(p))
		}
		var wrong *authority.IssuerError
		if err := c.Check(); errors.As(err, &wrong) {
			return nil, src.at(append(at, wrong.Field), "%s", wrong.Why)
		}
		if slices.ContainsFunc(all, func(o authority.IssuerConfig) bool { return o.URL == c.URL }) {
			return nil, src.at(append(at, "issuer"), "%q stands twice", c.URL)
		}
		all = append(all, c)
	}
	return all, nil
}
