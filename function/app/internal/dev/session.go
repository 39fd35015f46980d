//go:build !nodev

package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/account"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/operate"
	"halley/function/app/internal/page"
	"halley/function/app/internal/text"
	"halley/trigger"
)

// Handlers get catchUpTime after the last write, and less if they make no progress for
// standstillTime.
const (
	catchUpTime    = 30 * time.Second
	standstillTime = 10 * time.Second
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
		recorder: &page.Recorder{},
	}
	s.books.loose = world.services.Load == nil
	return s
}

// open opens the app once for each host, with one ledger between the runtime and the
// handlers of all. Close the session after use.
func (s *session) open(ctx context.Context, log *zap.Logger) error {
	s.log = log
	for range s.options.Hosts {
		if _, err := s.addHost(ctx, log); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	return nil
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

// Close closes what the handlers opened, after run.
func (s *session) Close() error {
	var errs []error
	for _, h := range s.allHosts() {
		errs = append(errs, h.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts = nil
	return errors.Join(errs...)
}

// run lets the load write until ctx ends or a host fails, lets the handlers catch up,
// stops the hosts, and replays what the poison has put into the stores. The handlers
// and hosts outlive ctx.
func (s *session) run(ctx context.Context) (runSummary, error) {
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	s.begin(working, stop)
	for _, h := range s.allHosts() {
		if err := s.startHost(h); err != nil {
			return runSummary{}, err
		}
	}
	s.write(ctx, working)
	lags := s.catchUp(working)
	failure := context.Cause(working)
	s.stopHosts()
	if failure != nil {
		return runSummary{}, failure
	}
	if s.poison.oneIn > 0 {
		replaying, cancel := context.WithTimeout(context.WithoutCancel(ctx), catchUpTime)
		defer cancel()
		if err := s.replay(replaying); err != nil {
			return runSummary{}, err
		}
	}
	return s.summary(lags), nil
}

// begin lets hosts start.
func (s *session) begin(working context.Context, fail context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working, s.fail = working, fail
}

// write runs the load, the splitting and the live line until either context ends.
func (s *session) write(ctx, working context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(working, cancel)()
	var around sync.WaitGroup
	around.Go(func() { s.reshape(ctx) })
	around.Go(func() { s.deliverLetters(ctx) })
	around.Go(func() { s.show.follow(ctx, s.state) })
	for _, seed := range s.world.seeds {
		around.Go(func() { seed.follow(ctx, s.show.say) })
	}
	if load := s.world.services.Load; load != nil {
		load(ctx, s.world.run)
	}
	<-ctx.Done()
	around.Wait()
}

// catchUp waits until the functions have handled all changes, as long as they make
// progress, and returns the lag of each.
func (s *session) catchUp(ctx context.Context) []operate.FunctionLag {
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	s.show.say("waiting for the handlers; Ctrl-C ends at once")
	before, since := "", time.Now()
	for {
		lags := s.look(context.WithoutCancel(ctx))
		left := s.books.lost()
		for _, l := range lags {
			if left += int(l.Changes); !l.Known {
				left++
			}
		}
		_, functions := s.books.totals()
		if now := fmt.Sprint(left, functions); now != before {
			before, since = now, time.Now()
		}
		if left == 0 || time.Since(since) >= standstillTime || !hosting.Pause(ctx, 50*time.Millisecond) {
			return lags
		}
	}
}

// look returns the lag of each function.
func (s *session) look(ctx context.Context) (lags []operate.FunctionLag) {
	for _, f := range s.world.settings.Functions {
		lags = append(lags, operate.EstimateLag(ctx, f, s.lags))
	}
	return lags
}

// state is what the live line shows. If another process has the handlers, it is what
// their leases say, at most once a second.
func (s *session) state() screenState {
	st := screenState{After: time.Since(s.began), Loaded: s.world.services.Load != nil, Counted: !s.options.Watch}
	st.Written, st.Functions = s.books.totals()
	if s.options.Watch {
		if time.Since(s.looked) >= time.Second {
			s.seen, s.looked = s.look(context.Background()), time.Now()
		}
		for i, l := range s.seen {
			st.Functions[i].Behind = l.Changes
		}
		return st
	}
	ranges := map[string]int64{}
	for _, h := range s.liveHosts() {
		for _, host := range h.Status() {
			for _, f := range host.Functions {
				st.Leases += len(f.Ranges)
				for _, r := range f.Ranges {
					ranges[f.Name] += r.Behind
				}
			}
		}
	}
	for i := range st.Functions {
		f := &st.Functions[i]
		if f.Behind = ranges[f.Name]; st.Loaded {
			f.Behind = int64(f.Lost)
		}
	}
	return st
}

// reshape splits the first range after --split-after, and merges its halves after
// the same time again.
func (s *session) reshape(ctx context.Context) {
	d, show := s.options.SplitAfter, s.show
	if d == 0 || !hosting.Pause(ctx, d) {
		return
	}
	container := s.world.run.Monitored()[0]
	ranges, err := container.Ranges(ctx)
	if err != nil {
		show.say(text.OfError(err))
		return
	}
	children, err := s.world.account.Split(container.Database(), container.Name(), ranges[0].ID)
	if err != nil {
		show.say(text.OfError(err))
		return
	}
	show.say(fmt.Sprintf("a range was split into %s and %s", children[0], children[1]))
	if !hosting.Pause(ctx, d) {
		return
	}
	child, err := s.world.account.Merge(container.Database(), container.Name(), children...)
	if err != nil {
		show.say(text.OfError(err))
		return
	}
	show.say(fmt.Sprintf("ranges %s and %s were merged into %s", children[0], children[1], child))
}
