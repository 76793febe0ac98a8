// Command ailang-worldd is the daemon and its command line. It hands arguments, streams,
// environment and working folder to host/cli and turns signals into the end of a context;
// all else is there. Answers spec/11-cli.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"ailang.dev/world/host/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	env := cli.Env{Environ: os.Environ()}
	env.Dir, _ = os.Getwd()
	env.Exe, _ = os.Executable()
	env.Abort = func() { os.Exit(130) }
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, env))
}
