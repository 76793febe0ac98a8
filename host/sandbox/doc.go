// Package sandbox runs one command so that the operating system confines it. It owns how:
// namespaces of its own for users, processes, mounts, network, IPC and host name; a root
// made of what the caller names; no capability, no new privilege, a system call filter,
// Landlock where the kernel has it; limits on memory, processor time, processes, file size,
// open files, output and wall time. It knows nothing of effects, profiles or episodes, and
// never runs a command that it could not confine.
//
// How it works. Start runs this program again (Config.Command) as process 1 of new
// namespaces, and hands it the specification through a pipe. That process, Main, builds the
// root, moves into it, and starts the command from a thread that has given up everything;
// it reaps, watches and reports. When it ends, whatever the command started ends with it:
// the kernel kills a process namespace whose first process is gone. It ends when the command
// does, when it is killed, and when the pipe closes, which is what happens when the daemon
// dies of any cause.
//
// What is visible inside is at the place it has outside: /usr and what belongs to it, parts
// of /etc, the folders that the caller names, all read-only; the one writable tree; a /tmp,
// /dev, /proc of the run's own. In the writable tree, what the caller denies is mounted
// read-only where it exists, and sockets and FIFOs are covered. A denied name that does not
// exist yet cannot be kept from being made: no kernel interface denies a name below a
// directory in which others may be made, and a placeholder would be seen by whoever works in
// the tree, would outlive a daemon that is killed, and could not stand for every spelling.
// So such names are looked for when the run has ended, taken away, and told in
// Result.Removed.
//
// Answers spec/13-exec.md.
package sandbox
