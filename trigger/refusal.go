package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"halley/trigger/cosmos"
)

// RefusedError says that an account refuses the credential of its client (401), for example
// because its key was rotated. A process that has got another credential mends it.
// [Host.Run] returns one for each function if no function has worked for a minute.
type RefusedError struct {
	Account string    // endpoint
	Since   time.Time // of the first refusal, on this host's clock
	Err     error     // the newest answer
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("account %s refuses the credential since %s: %v", e.Account, e.Since.UTC().Format(time.RFC3339), e.Err)
}
func (e *RefusedError) Unwrap() error { return e.Err }

// accountUse is the use that a function makes of an account.
type accountUse int

const (
	useLeases accountUse = iota
	useFeed
	accountUses
)

// accountRefusals are the accounts that refuse the credential of a function. They may be
// one account, and are noted apart: leases and feed may have credentials of their own. Each
// answer is noted, so a good one costs one load. mu guards changes, and no other lock is
// taken under it.
type accountRefusals struct {
	mu    sync.Mutex
	byUse [accountUses]atomic.Pointer[accountRefusal]
}

// accountRefusal is a sequence of refusals without a good answer between them. It does not
// change.
type accountRefusal struct {
	RefusedError
	newest time.Time
}

// isLong reports whether the account has refused the credential for endPeriod. Its newest
// answer counts, not the time: the account may be well again since.
func (a *accountRefusal) isLong() bool { return a != nil && a.newest.Sub(a.Since) >= endPeriod }

// note records an answer, nil for a good one. It reports whether the account has refused
// the credential before, and whether it does now.
func (a *accountRefusals) note(use accountUse, err error) (oldRefusal, newRefusal *accountRefusal) {
	slot := &a.byUse[use]
	refused := cosmos.IsUnauthorized(err)
	if !refused && (err != nil || slot.Load() == nil) {
		return nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	oldRefusal = slot.Load()
	if refused {
		newRefusal = &accountRefusal{RefusedError{Account: accountOf(err), Since: time.Now(), Err: err}, time.Now()}
		if oldRefusal != nil {
			newRefusal.Since = oldRefusal.Since
		}
	}
	slot.Store(newRefusal)
	return oldRefusal, newRefusal
}

// accountOf is the endpoint of the account that has answered with the error, "" if there
// is none.
func accountOf(err error) string {
	if err == nil {
		return ""
	}
	var answer *cosmos.Error
	if errors.As(err, &answer) {
		return answer.Account
	}
	return ""
}

// current returns the longest refusal that lasts, or nil.
func (a *accountRefusals) current() (longest *accountRefusal) {
	for i := range a.byUse {
		if refusal := a.byUse[i].Load(); refusal != nil && (longest == nil || refusal.Since.Before(longest.Since)) {
			longest = refusal
		}
	}
	return longest
}

func (a *accountRefusals) clear() {
	for i := range a.byUse {
		a.byUse[i].Store(nil)
	}
}

// noteAnswer notes how an account has answered a request of the function, which may have
// been one to the other account if it failed. If no function of the host has hope then,
// the host ends.
func (r *functionRunner) noteAnswer(use accountUse, err error) {
	if answered := accountOf(err); answered != "" && answered != r.endpointOf(use) {
		use = useLeases + useFeed - use
	}
	oldRefusal, newRefusal := r.refusals.note(use, err)
	switch {
	case oldRefusal == nil && newRefusal != nil:
		r.log.Error("account refuses the credential", slog.String("account", newRefusal.Account), slog.Any("error", err))
	case oldRefusal != nil && newRefusal == nil:
		r.log.Info("account accepts the credential again", slog.String("account", oldRefusal.Account))
	}
	if newRefusal.isLong() && r.endIfHopeless != nil {
		r.endIfHopeless()
	}
}

func (r *functionRunner) endpointOf(use accountUse) string {
	if use == useLeases {
		return r.host.leases.Client().Endpoint()
	}
	return r.function.Container.Client().Endpoint()
}

// refusalError returns the refusal that keeps the function from its work, or nil.
func (r *functionRunner) refusalError() error {
	if refusal := r.refusals.current(); refusal != nil {
		return &refusal.RefusedError
	}
	return nil
}

// untilLongRefusal is the time until an account has refused the credential for endPeriod:
// a request then tells. It is 0 if there is none.
func (r *functionRunner) untilLongRefusal() time.Duration {
	if refusal := r.refusals.current(); refusal != nil {
		return max(time.Until(refusal.Since.Add(endPeriod)), 0)
	}
	return 0
}

// verifyAccount asks the monitored account whether it still refuses the credential, if no
// range of this host would tell.
func (r *functionRunner) verifyAccount(ctx context.Context) {
	if r.refusals.byUse[useFeed].Load() == nil || r.hasRanges() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	r.noteAnswer(useFeed, r.leases.RefreshRanges(ctx))
}
