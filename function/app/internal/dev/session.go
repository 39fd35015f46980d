//go:build !nodev

package dev

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/account"
	"halley/function/app/internal/operate"
	"halley/function/app/internal/page"
	"halley/trigger"
)

// session is one development run: the hosts of the app, its load, and the records of
// both.
type session struct {
	options runFlags
	world   *runWorld
	show    *screen
	books   *ledger
	at      *positions
	poison  *poison
	lags    account.Clients // to look at the lag with, as the command status does
	log     *zap.Logger
	began   time.Time
	looked  time.Time // at seen; only the goroutine of the live line uses both
	seen    []operate.FunctionLag

	handlerLog *zap.Logger   // of the handlers; nil is log
	standstill time.Duration // after the last write, functions that make no progress for so long get no more time

	recorder *page.Recorder
	letters  letterRun
	working  context.Context
	fail     context.CancelCauseFunc // ends working
	running  sync.WaitGroup          // hosts

	mu       sync.Mutex // guards the fields below, and working
	hosts    []*runHost // none if another process has the handlers
	numbered int        // hosts that were ever opened
}

func newSession(o runFlags, world *runWorld, show *screen) *session {
	s := &session{
		options: o, world: world, show: show, books: world.run.books, at: newPositions(),
		poison: &poison{oneIn: o.Poison}, lags: account.NewClients(world.account), began: time.Now(),
		recorder: &page.Recorder{}, standstill: 10 * time.Second,
	}
	s.books.loose = world.services.Load == nil
	return s
}

// observeFunction puts the recorder, the poison and the ledger before a function's
// handler, and recorder and ledger before its store. A store that keeps nothing is not
// observed: a change that it drops is lost.
func (s *session) observeFunction(host string, fn *trigger.Function) {
	i := slices.Index(s.world.settings.App.Functions, fn.Name)
	fn.Handler = s.recorder.Watch(host, fn.MaxAttempts, s.books.watch(i, s.poison.into(fn.Handler)))
	if s.world.settings.Functions[i].DeadLetters.Row().Keeps {
		fn.DeadLetters = page.WatchDeadLetters(s.recorder, notedDeadLetters{fn.DeadLetters, s.books, i})
	}
}

// letterRun are the dead letters of --dead-letters. One goroutine delivers them, and the
// summary reads the rest when that has ended.
type letterRun struct {
	waiting []trigger.DeadLetter
	failed  []string // ids in the recorder
	handled int
}

// begin lets hosts start.
func (s *session) begin(working context.Context, fail context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working, s.fail = working, fail
}

// look returns the lag of each function.
func (s *session) look(ctx context.Context) []operate.FunctionLag {
	return operate.EstimateLags(ctx, s.world.settings.Functions, s.lags)
}
