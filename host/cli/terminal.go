package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"golang.org/x/term"
)

// isTerminal tells whether a stream is a terminal.
func isTerminal(stream any) bool {
	if s, ok := stream.(*sink); ok {
		stream = s.w
	}
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// confirm shows what is about to be allowed and asks y/N on the terminal. yes answers for
// the person; without a terminal nothing else does.
func (a *app) confirm(ctx context.Context, yes bool, what, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(a.stdin) {
		return failf("this needs a yes, and there is no terminal to ask on").
			hinted("add --yes if you mean it:\n%s", strings.TrimRight(what, "\n"))
	}
	fmt.Fprint(a.stderr, what)
	return a.ask(ctx, question)
}

// ask asks y/N. All but a yes, the end of ctx too, is a no.
func (a *app) ask(ctx context.Context, question string) error {
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(a.stdin, maxAnswer)).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		if s := strings.ToLower(strings.TrimSpace(line)); s == "y" || s == "yes" {
			return nil
		}
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
	}
	return failf("not confirmed; nothing was done")
}

// maxAnswer bounds, in bytes, what is read of a person's answer.
const maxAnswer = 1 << 10
