package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ailang.dev/world/host/client"
	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// callName is the verb whose --json is not the switch for JSON output.
const callName = "call"

// maxArguments bounds, in bytes, the arguments of a call.
const maxArguments = 1 << 20

// callFlags are the flags of call.
type callFlags struct {
	remoteFlags
	args, jsonArgs []string
	text, task     string
	strict         bool
}

func (a *app) callCommand() *cobra.Command {
	var f callFlags
	c := &cobra.Command{
		Use:   callName + " TOOL [--arg NAME=TEXT]… [--arg-json NAME=JSON]… [--json OBJECT] --session FILE",
		Short: "Call a transition",
		Long: `Calls a transition and prints the most useful part of its output: the content, the
entries, the matches, the text, else the whole object. One line on stderr says which log entry it
became. --json-out prints the output object as it is.

Arguments: --arg gives a text, --arg-json any JSON value, --json the whole object ("-" reads
it from stdin); the first two add to the last.

--task makes the call idempotent: sending the same task and arguments again gives the
committed result, and nothing runs. Without it each call is a new one.

A user's token, in the place of the session, calls skills over the task endpoint.

An output with "ok": false is a result like any other and exits 0, unless --strict.`,
		Example: `  ailang-worldd tools list --session ~/.world-ep1
  ailang-worldd call workspace-read --arg path=README.md --session ~/.world-ep1`,
		Args: exactly(1, "one TOOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.call(cmd, args[0], f) },
	}
	f.addWithoutJSON(c)
	c.Flags().StringArrayVar(&f.args, "arg", nil, "an argument that is a text, `NAME=TEXT`; repeatable")
	c.Flags().StringArrayVar(&f.jsonArgs, "arg-json", nil, "an argument that is a JSON value, `NAME=JSON`; repeatable")
	c.Flags().StringVar(&f.text, "json", "", "all arguments as one JSON `OBJECT`, or - for stdin")
	c.Flags().StringVar(&f.task, "task", "", "idempotency key, 1 to 128 of A-Z a-z 0-9 . _ - (default a random one)")
	c.Flags().BoolVar(&f.json, "json-out", false, "print the output object as JSON")
	c.Flags().BoolVar(&f.strict, "strict", false, "exit 1 if the output says \"ok\": false")
	return c
}

func (a *app) call(cmd *cobra.Command, tool string, f callFlags) error {
	if f.task == "" {
		f.task = uuid.NewString()
	} else if !coordinator.ValidTask(f.task) {
		return usage(cmd, "--task must be 1 to 128 of A-Z a-z 0-9 . _ -")
	}
	args, err := a.arguments(cmd, f)
	if err != nil {
		return err
	}
	c, err := a.sessionClient(f.remoteFlags)
	if err != nil {
		return err
	}
	done := a.progress("waiting for " + c.URL())
	called, err := c.Call(cmd.Context(), tool, f.task, args)
	if world.KindOf(err) == world.KindSessionUnknown {
		// It may be a user's token: the task endpoint knows.
		if sent, serr := c.Send(cmd.Context(), tool, f.task, args); world.KindOf(serr) != world.KindSessionUnknown {
			called, err = sent, serr
		}
	}
	done()
	if err != nil {
		return callError(err, f.task)
	}
	return a.showCalled(called, f)
}

// callError adds what to do next.
func callError(err error, task string) error {
	switch world.KindOf(err) {
	case world.KindTimeout, world.KindCanceled:
		if hintOf(err) == "" {
			return failf("%s", describe(err).Message).because(err).
				hinted("it may have been committed; the same command with --task %s tells, and runs nothing twice", task)
		}
	case world.KindNotAuthorized:
		return failf("not authorized: there is no such tool, or the session's grants do not admit it").because(err).
			hinted("`ailang-worldd tools list` shows what they admit")
	}
	return err
}

// arguments makes the arguments object of the three flags.
func (a *app) arguments(cmd *cobra.Command, f callFlags) (jsontext.Value, error) {
	text := []byte(f.text)
	if f.text == "-" {
		var err error
		if text, err = a.readInput("-", maxArguments); err != nil {
			return nil, err
		}
	}
	all := map[string]jsontext.Value{}
	if len(bytes.TrimSpace(text)) > 0 {
		members, err := hashref.Members(text)
		if err != nil {
			return nil, usage(cmd, "--json must be a JSON object: %v", err)
		}
		all = members
	}
	given := map[string]bool{}
	for _, kv := range f.args {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" || given[name] {
			return nil, usage(cmd, "--arg %q must be NAME=TEXT, each NAME once", kv)
		}
		quoted, err := jsontext.AppendQuote(nil, value)
		if err != nil {
			return nil, usage(cmd, "--arg %s: the text is not valid UTF-8", name)
		}
		given[name], all[name] = true, quoted
	}
	for _, kv := range f.jsonArgs {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" || given[name] {
			return nil, usage(cmd, "--arg-json %q must be NAME=JSON, each NAME once", kv)
		}
		v := jsontext.Value(value)
		if !v.IsValid() {
			return nil, usage(cmd, "--arg-json %s: %q is no JSON value; for a text use --arg", name, value)
		}
		given[name], all[name] = true, v
	}
	raw, err := json.Marshal(all, json.Deterministic(true))
	if err != nil {
		return nil, usage(cmd, "the arguments are no JSON object: %v", err)
	}
	if len(raw) > maxArguments {
		return nil, usage(cmd, "the arguments are larger than %d bytes", maxArguments)
	}
	return raw, nil
}

// showCalled prints what a call gave.
func (a *app) showCalled(c client.Called, f callFlags) error {
	var out output
	if err := json.Unmarshal(c.Output, &out.members); err != nil {
		return failf("the output is no JSON object: %v", err)
	}
	if f.json {
		if err := a.showJSON(c.Output); err != nil {
			return err
		}
	} else {
		a.showOutput(c.Output, out)
	}
	fmt.Fprintf(a.stderr, "entry %d  %s  world %s\n", c.Entry, printable(c.Invocation, false), c.World)
	if f.strict && out.refused() {
		return exitError(ExitError)
	}
	return nil
}
