package config

import (
	"strconv"

	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/world"
)

// policySection says what is read-only in worktrees beside what is built in.
type policySection struct {
	Deny     []string  `yaml:"deny"`
	Allow    []string  `yaml:"allow"`
	Episodes []episode `yaml:"episodes"`
}

type episode struct {
	Match string   `yaml:"match"`
	Deny  []string `yaml:"deny"`
	Allow []string `yaml:"allow"`
}

func (s policySection) build(src *source) (policy.Config, error) {
	c := policy.Config{Rules: policy.Rules{Deny: s.Deny, Allow: s.Allow}}
	at := []string{"policy"}
	if err := patterns(src, at, s.Deny, s.Allow); err != nil {
		return c, err
	}
	for i, e := range s.Episodes {
		at := []string{"policy", "episodes", strconv.Itoa(i)}
		if err := patterns(src, at, e.Deny, e.Allow); err != nil {
			return c, err
		}
		c.Episodes = append(c.Episodes, policy.Episode{Match: e.Match, Rules: policy.Rules{Deny: e.Deny, Allow: e.Allow}})
		if _, err := policy.New(policy.Config{Episodes: c.Episodes[i:]}); err != nil {
			return c, src.at(append(at, "match"), "%s", world.Message(err))
		}
	}
	if _, err := policy.New(c); err != nil {
		return c, src.at(at, "%s", world.Message(err))
	}
	return c, nil
}

func patterns(src *source, at []string, deny, allow []string) error {
	for key, list := range map[string][]string{"deny": deny, "allow": allow} {
		for i, pat := range list {
			if why := policy.BadPattern(pat); why != "" {
				return src.at(append(at, key, strconv.Itoa(i)), "pattern %q %s", pat, why)
			}
		}
	}
	return nil
}
