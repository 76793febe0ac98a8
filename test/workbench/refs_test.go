package workbench

import (
	"context"

	"ailang.dev/world/host/provenance"
)

// chain is what an entry stands on.
func (s *scene) chain(task string) *provenance.Chain {
	s.t.Helper()
	c, err := provenance.Explain(context.Background(), s.Core.Store, s.entries[task])
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *scene) object(task string) string { return s.chain(task).Entry.TransitionRef.String() }
func (s *scene) source(task string) string { return s.chain(task).Source.String() }

func (s *scene) head() string {
	s.t.Helper()
	h, err := s.Core.Store.Head(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	return h.World.String()
}
