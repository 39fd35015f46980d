//go:build !nodev

package dev

import (
	"context"
	"fmt"
	"sync"
	"time"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/operate"
	"halley/function/app/internal/text"
	"halley/trigger"
)

// catchUpTime is what handlers get after the last write; see session.standstill.
const catchUpTime = 30 * time.Second

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
		if left == 0 || time.Since(since) >= s.standstill || !hosting.Pause(ctx, 50*time.Millisecond) {
			return lags
		}
	}
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

// replay cures the poison and gives every dead letter to its handler again, oldest
// first. After that, the dead letters that are still stored, and no others, count
// as handled although the handler did not accept them.
func (s *session) replay(ctx context.Context) error {
	s.poison.cured.Store(true)
	for i, f := range s.world.settings.Functions {
		if !f.DeadLetters.Row().Keeps {
			continue
		}
		fn, err := s.opened(f.Name)
		if err != nil {
			return err
		}
		done, err := trigger.Replay(ctx, fn.DeadLetters, fn.DeadLetterSource(), fn.Handler, nil)
		if err != nil {
			return err
		}
		var left []versioned
		dead := trigger.DeadLetterQuery{Source: fn.DeadLetterSource(), Kind: trigger.RecordDead}
		for d, err := range trigger.AllDeadLetters(ctx, fn.DeadLetters, dead) {
			if err != nil {
				return fmt.Errorf("dead letters of %s: %w", fn.Name, err)
			}
			left = append(left, versionedOf(d.Document))
		}
		s.books.replayed(i, done.Handled, left)
	}
	return nil
}
