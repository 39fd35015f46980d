package hosting

import (
	"context"
	"io"
	"net/url"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/account"
	"halley/function/app/internal/settings"
	"halley/trigger/cosmos"
)

// RunTelling runs all hosts like Run, and logs their starts and their progress.
func (a *App) RunTelling(ctx context.Context, every time.Duration) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	a.started()
	var telling sync.WaitGroup
	telling.Go(func() { a.tellUnreachable(ctx) })
	telling.Go(func() { a.tellProgress(ctx, every) })
	err := a.Run(ctx)
	stop()
	telling.Wait()
	return err
}

// started tells what each function reads, and where it keeps its leases.
func (a *App) started() {
	for _, f := range a.Settings.Functions {
		account := ""
		if endpoint, err := url.Parse(a.Opened[f.Name].Container.Client().Endpoint()); err == nil {
			account = endpoint.Host
		}
		a.Log.Info("function started", zap.String("function", f.Name), zap.String("account", account),
			zap.String("container", f.DatabaseName+"/"+f.ContainerName), zap.Stringer("mode", f.ChangeFeedMode),
			zap.String("leases", f.LeaseDatabaseName+"/"+f.LeaseContainerName), zap.String("prefix", f.LeaseContainerPrefix),
			zap.Stringer("start", f.StartFrom), zap.Stringer("deadLetters", f.DeadLetters), zap.Stringer("filter", f.Filter))
	}
}

// tellUnreachable logs which accounts the functions wait for: the runtime tries for a
// while before it tells of a failure. It returns when each account has answered once, or
// is known not to.
func (a *App) tellUnreachable(ctx context.Context) {
	var asking sync.WaitGroup
	asked := map[*cosmos.Client]bool{}
	for _, f := range a.Settings.Functions {
		at, err := a.accounts.Open(f)
		if err != nil {
			return // it was opened before
		}
		for client, name := range map[*cosmos.Client]settings.ConnectionName{at.Leases.Client(): f.LeaseConnection, at.Monitored.Client(): f.Connection} {
			if asked[client] {
				continue
			}
			asked[client] = true
			asking.Go(func() {
				notice := time.AfterFunc(account.ReachNotice, func() {
					a.Log.Warn("waiting for an account", zap.Stringer("connection", name), zap.String("endpoint", client.Endpoint()))
				})
				defer notice.Stop()
				if _, err := account.Reach(ctx, client, name, io.Discard); err != nil && ctx.Err() == nil {
					a.Log.Error("account does not answer; trying again", zap.Error(err))
				}
			})
		}
	}
	asking.Wait()
}

// tellProgress logs a line for each function in each interval, until ctx ends.
func (a *App) tellProgress(ctx context.Context, every time.Duration) {
	for Pause(ctx, every) {
		for _, h := range a.Hosts {
			for _, f := range h.Status().Functions {
				a.life.tell(f, every)
			}
		}
	}
}
