package ailang

import (
	"fmt"

	"ailang.dev/world/host/archive"
	"ailang.dev/world/host/world"
)

// MaxArchived is how many binaries of earlier starts are looked for.
const MaxArchived = 256

// RefOf is the identity that a binary would be pinned under. Errors are KindBadRequest.
func RefOf(path string) (world.Ref, error) {
	ref, err := archive.RefOf(path)
	if err != nil {
		return world.Ref{}, refused("ailang.RefOf", path, err)
	}
	return ref, nil
}

// refused is an error about a file that cannot be pinned.
func refused(op, path string, err error) error {
	return &world.Error{Op: op, Kind: world.KindBadRequest, Err: err,
		Msg:  fmt.Sprintf("the AILANG binary %s cannot be pinned: %s", path, readable(err.Error())),
		Hint: "--ailang-bin takes an AILANG release for this machine"}
}

// Archived makes an engine for each binary that earlier starts archived, but for except. A
// binary is hashed when it is first needed, or by Prove.
func Archived(cfg Config, except world.Ref) ([]*Engine, error) {
	// Two files a binary, and the other things that a person may have put there.
	refs, err := archive.Refs(cfg.Archive, 4*MaxArchived)
	if err != nil {
		return nil, err
	}
	var all []*Engine
	for _, ref := range refs {
		if ref == except || len(all) == MaxArchived {
			continue
		}
		version := archive.ReadVersion(cfg.Archive, ref)
		if version == "" {
			version = "unknown"
		}
		all = append(all, newEngine(cfg, ref, version, true))
	}
	return all, nil
}
