package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halley/handlers"
	"halley/trigger"
)

// FunctionSettings are those of a function in another language that the app runs, see
// [OpenFunction].
type FunctionSettings struct {
	Command   string            `desc:"starts the function: a program and its arguments, separated by spaces, or a JSON array of strings; no shell"`
	Processes handlers.Count    `default:"1" desc:"processes of the function at most; each does one call at a time"`
	ExitGrace handlers.Interval `split_words:"true" default:"5s" desc:"time for the function to answer a call that is cancelled, and to exit at the end, before it is killed"`
}

// OpenFunction returns a handler that a command serves with the library of its language:
// it speaks on a channel of its own, and all that it prints goes to the log. Its deadline
// is the handler's.
//
// OpenFunction starts the command and waits until it is ready, so that a function that
// cannot be loaded is refused with its own error.
func OpenFunction(ctx context.Context, env handlers.Env, s FunctionSettings) (trigger.Handler, func() error, error) {
	pool, err := openFunction(ctx, env, s)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	h := &handler{transport: pool, version: channelVersion, meter: env.Meter("function")}
	env.BorrowBatches() // a call is encoded before it is made
	env.OfferProbe(handlers.Probe{What: "function of " + env.Prefix + "COMMAND", Try: h.probe})
	return h.handle, pool.close, nil
}

func openFunction(ctx context.Context, env handlers.Env, s FunctionSettings) (*commandPool, error) {
	if s.Command == "" {
		return nil, errors.New("COMMAND is empty; write for example python3 -m halley orders, or node node_modules/halley/run.js orders.js")
	}
	if s.ExitGrace < 0 {
		return nil, fmt.Errorf("EXIT_GRACE is %v; set 0 or more", s.ExitGrace)
	}
	pool, err := newCommandPool(s.Command, s.Processes, launch{channel: true, grace: time.Duration(s.ExitGrace), log: env.Log()})
	if err != nil {
		return nil, fmt.Errorf("%w. The plans of Azure Functions for custom handlers bring no interpreter: deploy an image that has it", err)
	}
	if err := pool.startOne(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("COMMAND: %w", err), pool.close())
	}
	return pool, nil
}
