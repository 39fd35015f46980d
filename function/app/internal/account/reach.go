package account

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"halley/function/app/internal/settings"
	"halley/trigger/cosmos"
)

const (
	ReachNotice = 700 * time.Millisecond // after it, a command names the account that it waits for
	reachTime   = 4 * time.Second        // after it, the account counts as unreachable
)

// Reach reads the account, so that a command fails soon if it is unreachable,
// and says what it waits for.
func Reach(ctx context.Context, client *cosmos.Client, name settings.ConnectionName, notes io.Writer) (cosmos.Account, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	notice := time.AfterFunc(ReachNotice, func() { fmt.Fprintf(notes, "waiting for the account of %s at %s\n", name, client.Endpoint()) })
	defer notice.Stop()
	account, err := client.Account(ctx)
	if err == nil {
		return account, nil
	}
	if status, _ := cosmos.Status(err); status != 0 {
		return account, err // an answer
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer within %v", reachTime)
	}
	return account, fmt.Errorf("account of %s not reachable: %w: check the endpoint %s, the network and the account's firewall", name, err, client.Endpoint())
}

// reachedAccounts are accounts that a command has tried. Functions that share one share the
// try.
type reachedAccounts struct {
	mu    sync.Mutex
	tries map[*cosmos.Client]func() error
}

// try calls reach once for a client, and returns its error to all callers.
func (r *reachedAccounts) try(client *cosmos.Client, reach func() error) error {
	if r == nil {
		return reach()
	}
	r.mu.Lock()
	try, isKnown := r.tries[client]
	if !isKnown {
		try = sync.OnceValue(reach)
		r.tries[client] = try
	}
	r.mu.Unlock()
	return try()
}

// Reach reads the accounts of a function, each once. Functions may do so at the same time once
// all of them have been opened.
func (a Clients) Reach(ctx context.Context, f settings.Function) error {
	at, err := a.Open(f)
	if err != nil {
		return err
	}
	for _, one := range []struct {
		client *cosmos.Client
		name   settings.ConnectionName
	}{{at.Monitored.Client(), f.Connection}, {at.Leases.Client(), f.LeaseConnection}} {
		if err := a.reached.try(one.client, func() error {
			_, err := Reach(ctx, one.client, one.name, os.Stderr)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// ForgetReached has Reach try the accounts again.
func (a Clients) ForgetReached() {
	if a.reached == nil {
		return
	}
	a.reached.mu.Lock()
	defer a.reached.mu.Unlock()
	clear(a.reached.tries)
}
