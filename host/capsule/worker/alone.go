package worker

import (
	"context"
	"os"
)

// Alone runs one operation in a worker of its own, and gives that process as it ended: what
// it took can be read there. The end of ctx kills it.
func Alone(ctx context.Context, command []string, req Request) (Result, *os.ProcessState, error) {
	starter := newStarter()
	defer starter.stop()
	w, err := newWorker(command, starter)
	if err != nil {
		return Result{}, nil, err
	}
	res, err := w.roundTrip(ctx, req.frame())
	cause := w.end()
	if err != nil {
		res = Failed("%s", cause)
		res.died = true
	}
	return res, w.cmd.ProcessState, nil
}
