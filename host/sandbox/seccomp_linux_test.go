package sandbox

import (
	"slices"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
)

// Every name that the filter lists is a call of some architecture, and what reaches outside
// is one of each that this program is built for; a misspelt name would be left out in silence.
func TestFilterKnowsItsCalls(t *testing.T) {
	listed := slices.Concat(refused, unwalled, []string{"clone3", "openat2"})
	for _, name := range listed {
		_, amd := arch.X86_64.SyscallNames[name]
		_, arm := arch.AARCH64.SyscallNames[name]
		if !amd {
			t.Errorf("%s is no system call", name)
		}
		// What arm64 never had.
		if old := slices.Contains([]string{"iopl", "ioperm", "_sysctl", "uselib", "ustat", "sysfs", "kexec_file_load"}, name); !arm && !old {
			t.Errorf("%s is no system call on arm64", name)
		}
	}
	for _, machine := range []*arch.Info{arch.X86_64, arch.AARCH64} {
		for number, name := range machine.SyscallNumbers {
			if number > newest && machine.SeccompMask == 0 {
				t.Logf("%s (%d) is newer than the filter, and refused", name, number)
			}
		}
	}
	for _, walled := range []bool{true, false} {
		prog, err := assembleFilter(walled)
		if err != nil || len(prog) < len(refused) {
			t.Errorf("%d instructions: %v", len(prog), err)
		}
	}
}
