package main

import (
	"context"
	"errors"
	"fmt"

	"halley/trigger"
)

// function is the function of a ledger, which reads from the beginning.
func (l *ledger) function() trigger.Function {
	return trigger.Function{
		FeedSource:  trigger.FeedSource{Name: l.items.Name(), Container: l.items, StartFrom: trigger.FromBeginning()},
		BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 7, PageItems: 10},
		Handler:     l.handle,
	}
}

// drain drains a function until it has caught up.
func (a *account) drain(ctx context.Context, f trigger.Function) error {
	host, err := a.host(f.Name+"-drain", f, ignore)
	if err != nil {
		return err
	}
	summary, err := host.Drain(ctx)
	if err == nil && (summary.Behind > 0 || summary.Problem != "") {
		err = fmt.Errorf("the drain is not caught up: %+v", summary)
	}
	return err
}

// twoDrains drains, and drains again for what was written between.
func twoDrains(ctx context.Context, a *account) (string, error) {
	l, err := a.ledger(ctx, "drains")
	if err != nil {
		return "", err
	}
	for range 2 {
		if err := errors.Join(l.write(ctx, 200), a.drain(ctx, l.function()), l.complete()); err != nil {
			return "", err
		}
	}
	return "", nil
}

// oneHost writes before a host starts and while it runs.
func oneHost(ctx context.Context, a *account) (string, error) {
	l, err := a.ledger(ctx, "alone")
	if err != nil {
		return "", err
	}
	if err := l.write(ctx, 100); err != nil {
		return "", err
	}
	host, err := a.start(ctx, "alone", l.function())
	if err != nil {
		return "", err
	}
	return "", errors.Join(l.write(ctx, 200), l.await(ctx), host.end())
}

// twoHosts shares the ranges between two hosts. One range splits; then the first host stops.
func twoHosts(ctx context.Context, a *account) (string, error) {
	l, err := a.ledger(ctx, "pair")
	if err != nil {
		return "", err
	}
	first, err := a.start(ctx, "first", l.function())
	if err != nil {
		return "", err
	}
	err = errors.Join(l.write(ctx, 100), l.await(ctx))
	second, startErr := a.start(ctx, "second", l.function())
	if err := errors.Join(err, startErr); err != nil {
		return "", errors.Join(err, first.end())
	}
	err = second.awaitRange(ctx)
	if err == nil {
		err = l.write(ctx, 100)
	}
	if err == nil {
		err = a.split(ctx, l.items)
	}
	if err == nil {
		err = errors.Join(l.write(ctx, 100), l.await(ctx))
	}
	err = errors.Join(err, first.end())
	if err == nil {
		err = errors.Join(l.write(ctx, 100), l.await(ctx))
	}
	return "", errors.Join(err, second.end())
}

// statusShowsLag compares halley status with the changes that were written after a drain.
func statusShowsLag(ctx context.Context, a *account) (string, error) {
	l, err := a.ledger(ctx, "status")
	if err != nil {
		return "", err
	}
	if err := errors.Join(l.write(ctx, 100), a.drain(ctx, l.function())); err != nil {
		return "", err
	}
	idle, err := a.status(ctx, l.items)
	if err != nil {
		return "", err
	}
	if err := l.write(ctx, 50); err != nil {
		return "", err
	}
	behind, err := a.status(ctx, l.items)
	if err != nil {
		return "", err
	}
	pending, err := l.missing()
	switch {
	case err != nil:
		return "", err
	case !idle.Known || idle.Changes != 0:
		return "", fmt.Errorf("after a drain the lag is %d, known: %t", idle.Changes, idle.Known)
	case !behind.Known || behind.Changes != int64(len(pending)):
		return "", fmt.Errorf("%d changes are pending, the lag is %d, known: %t", len(pending), behind.Changes, behind.Known)
	}
	return fmt.Sprintf("%d changes behind", behind.Changes), nil
}
