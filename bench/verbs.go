package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/pprof"

	"ailang.dev/world/host/cli"
)

// verbs are what this program starts itself with.
var verbs = map[string]func(ctx context.Context, exe string, args []string, stdout, stderr io.Writer) error{
	verbWorld:  worldVerb,
	verbWorker: workerVerb,
	verbRival:  rivalVerb,
}

const (
	verbWorld  = "world"
	verbWorker = "worker" // as the daemon's own program names it
	verbRival  = "rival"
)

// worldVerb is the daemon's command line inside this program, with profiles of its whole
// run if they are asked for before "--".
func worldVerb(ctx context.Context, exe string, args []string, stdout, stderr io.Writer) (err error) {
	fs := flag.NewFlagSet(verbWorld, flag.ContinueOnError)
	cpu := fs.String("cpu", "", "`file` for a CPU profile")
	allocs := fs.String("allocs", "", "`file` for an allocation profile")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *cpu != "" {
		f, err := os.Create(*cpu)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if *allocs != "" {
		defer func() { err = errors.Join(err, writeProfile("allocs", *allocs)) }()
	}
	return commandLine(ctx, exe, fs.Args(), stdout, stderr)
}

func writeProfile(name, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(name).WriteTo(f, 0), f.Close())
}

// workerVerb is what the daemon's command line starts for sources that do not ship.
func workerVerb(ctx context.Context, exe string, args []string, stdout, stderr io.Writer) error {
	return commandLine(ctx, exe, append([]string{verbWorker}, args...), stdout, stderr)
}

func commandLine(ctx context.Context, exe string, args []string, stdout, stderr io.Writer) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	env := cli.Env{Dir: dir, Environ: os.Environ(), Exe: exe}
	if code := cli.Run(ctx, args, os.Stdin, stdout, stderr, env); code != cli.ExitOK {
		return fmt.Errorf("exit %d", code)
	}
	return nil
}
