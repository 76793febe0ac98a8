package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/client"
	"ailang.dev/world/host/world"
)

// cliError is a refusal of the command line's own, with what to do about it.
type cliError struct {
	kind  string // as --json names it
	msg   string
	hint  string
	cause error
}

func (e *cliError) Error() string { return e.msg }
func (e *cliError) Unwrap() error { return e.cause }

// failf makes an error of what went wrong.
func failf(format string, args ...any) *cliError {
	return &cliError{kind: "Failed", msg: fmt.Sprintf(format, args...)}
}

// hinted adds what to do next.
func (e *cliError) hinted(format string, args ...any) *cliError {
	e.hint = fmt.Sprintf(format, args...)
	return e
}

// because keeps the cause, which decides the kind.
func (e *cliError) because(err error) *cliError {
	e.cause = err
	return e
}

// usage makes an error of how a command was written.
func usage(cmd *cobra.Command, format string, args ...any) *cliError {
	return &cliError{kind: "Usage", msg: fmt.Sprintf(format, args...), hint: "see `" + cmd.CommandPath() + " --help`"}
}

// argsError gives cobra's judgement of positional arguments this package's form.
func argsError(cmd *cobra.Command, want string) *cliError {
	return &cliError{kind: "Usage", msg: cmd.CommandPath() + " takes " + want, hint: "usage: " + cmd.UseLine()}
}

// exactly demands n positional arguments, named in want.
func exactly(n int, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return argsError(cmd, want)
		}
		return nil
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) != 0 {
		return argsError(cmd, "flags only")
	}
	return nil
}

// exitError ends a run without a word: all was said.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// fatalError is one that keeps serve or up from running.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// fatal marks an error of starting or serving; nil stays nil.
func fatal(err error) error {
	if err == nil {
		return nil
	}
	return &fatalError{err}
}

func exitCode(err error) int {
	var f *fatalError
	switch {
	case world.KindOf(err) == world.KindIntegrity:
		return ExitIntegrity
	case errors.As(err, &f):
		return ExitFatal
	}
	return ExitError
}

// wireReport is an error as --json shows it.
type wireReport struct {
	Kind    string          `json:"kind"`
	Message string          `json:"message"`
	Hint    string          `json:"hint,omitzero"`
	Refusal *client.Refusal `json:"refusal,omitzero"`
}

// describe tells of an error in the words for people.
func describe(err error) wireReport {
	r := wireReport{}
	errors.As(err, &r.Refusal)
	var own *cliError
	if errors.As(err, &own) {
		r.Kind, r.Message, r.Hint = own.kind, own.msg, own.hint
		if own.cause != nil && own.kind == "Failed" && world.KindOf(own.cause) != world.KindInternal {
			r.Kind = world.KindOf(own.cause).String()
		}
		return r
	}
	r.Kind, r.Message, r.Hint = world.KindOf(err).String(), world.Message(err), hintOf(err)
	var e *world.Error
	if errors.As(err, &e) && e.Msg != "" && !strings.Contains(e.Msg, e.Subject) {
		r.Message = e.Subject + ": " + e.Msg
	}
	if r.Message == "" {
		r.Message = err.Error()
		if r.Hint != "" {
			r.Message = strings.TrimSuffix(r.Message, " ("+r.Hint+")")
		}
	}
	return r
}

// hintOf is the first hint in an error's chain.
func hintOf(err error) string {
	var e *world.Error
	for errors.As(err, &e) {
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}

// report writes an error to stderr.
func (a *app) report(cmd *cobra.Command, args []string, err error) {
	r := describe(err)
	if wantsJSON(cmd, args) {
		writeJSON(a.stderr, struct {
			Error wireReport `json:"error"`
		}{r})
		return
	}
	fmt.Fprintf(a.stderr, "ailang-worldd: %s\n", printable(r.Message, true))
	if r.Refusal != nil && r.Refusal.SelectedHead != "" {
		fmt.Fprintf(a.stderr, "observed head %s\nselected head %s\n", r.Refusal.ObservedHead, r.Refusal.SelectedHead)
	}
	if r.Hint != "" {
		fmt.Fprintf(a.stderr, "%s\n", printable(r.Hint, true))
	}
}

// wantsJSON tells whether a command was asked for JSON, even if its flags could not be
// read to their end.
func wantsJSON(cmd *cobra.Command, args []string) bool {
	name := "json"
	if cmd.Name() == callName {
		name = "json-out"
	}
	if f := cmd.Flags().Lookup(name); f != nil && f.Value.String() == "true" {
		return true
	}
	return slices.Contains(args, "--"+name)
}
