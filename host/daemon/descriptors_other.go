//go:build !unix

package daemon

// descriptorLimit is how many descriptors this process may have; 0 if that is not known.
func descriptorLimit() uint64 { return 0 }
