// Package ailang is the engine for sources in AILANG: a capsule.Engine that runs a pinned
// binary as a subprocess. It owns the archive of binaries beside the store, the proof that
// what runs is what was archived, the command line, and the walls round a subprocess. It
// knows nothing of the language but where a source names its module, and takes nothing of
// a run but what the binary wrote to stdout. Answers spec/04-capsule.md.
//
// # Pinning
//
// An engine is identified by the hash of its binary. Pin copies a binary into the archive
// under that hash; Archived finds what earlier starts left there, so that a transition
// that pins an older binary runs on. Before anything runs, the archived file is hashed and
// copied into memory that the kernel seals against change, and that copy is what is
// executed: what runs is what was hashed, whatever happens to the file. Where the kernel
// gives no such memory (macOS; a policy against executing it, as vm.memfd_noexec=2; want of
// memory, as long as that lasts) the archived file itself is executed, right after it was
// hashed or found unchanged: whoever may write to it could change it in between. The operator
// is told. The file is looked at again before each run, and hashed again if its size, times
// or inode changed; one that does not fit its name any more ends the engine's runs until it
// does again.
//
// # Running
//
// A run is
//
//	<bin> run --quiet --caps "" --entry main --args-json <JSON string> host/capsule/main.ail
//
// in an empty folder that holds that one file, with a fixed environment. Exit code 0 means
// that stdout, less one line end, is the text that main returned; nothing is filtered out of
// it. Any other end failed, and a check of the source tells whether it loads at all.
//
// # Walls
//
// Each run has its own process group and, where the kernel grants one, its own process
// namespace, which ends as a whole with the binary: nothing that it started outlives it.
// Without one, what is in the group or in the run's folder is ended, what has left both is
// not, and the operator is told at start. Where they are granted, network and IPC namespaces
// of its own keep a run from the network and from memory that others share; where not, the
// operator is told. Address space, processor time, the size of a file, open files and, where
// a user namespace makes that a number of its own, processes are limited; the binary cannot
// gain privileges, has no descriptor but its three, and dies with the daemon.
//
// The walls are for sources. That a source has no capability is the pinned binary's own work,
// by --caps "". A binary that is hostile, or that a source has broken, is the daemon's user:
// no mount namespace hides a file, so it can open the store, the archive, the admin socket and
// all else that user may, and write as many files as the disk has room for (the limit is on
// each). A daemon that is root has no wall against it: root leaves a network namespace too.
package ailang
