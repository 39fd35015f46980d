package account

import (
	"context"
	"fmt"
	"io"
	"os"
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

// Reach reads the accounts of a function, each once.
func (a Clients) Reach(ctx context.Context, f settings.Function) error {
	at, err := a.Open(f)
	if err != nil {
		return err
	}
	for _, one := range []struct {
		client *cosmos.Client
		name   settings.ConnectionName
	}{{at.Monitored.Client(), f.Connection}, {at.Leases.Client(), f.LeaseConnection}} {
		err, known := a.reached[one.client]
		if !known {
			_, err = Reach(ctx, one.client, one.name, os.Stderr)
			if a.reached != nil {
				a.reached[one.client] = err
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ForgetReached has reach try the accounts again.
func (a Clients) ForgetReached() { clear(a.reached) }
