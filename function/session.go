package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// catchUpTime is for the handlers, after the last write.
const catchUpTime = 30 * time.Second

// session is one development run: hosts and a writer on the sample application,
// and what is noted about them.
type session struct {
	options devOptions
	world   *sample
	show    *progress
	books   *ledger
	at      *positions
	writer  *writer
	poison  *poison
	hosts   []*trigger.Host
}

// newSession puts every function under the eyes of one ledger and makes the
// hosts.
func newSession(o devOptions, world *sample, show *progress, log *zap.Logger) (*session, error) {
	s := &session{options: o, world: world, show: show, at: newPositions(), poison: &poison{oneIn: o.Poison}}
	var names []string
	for _, f := range world.functions {
		names = append(names, f.Name)
	}
	s.books = newLedger(names)
	for i := range world.functions {
		f := &world.functions[i]
		f.Handler = s.books.watch(i, s.poison.into(f.Handler))
		f.DeadLetters = notedLetters{f.DeadLetters, s.books, i}
	}
	s.writer = &writer{
		container: world.client.Container(sampleDatabase, sampleResults),
		ledger:    s.books,
		rate:      o.Rate,
		run:       strconv.FormatInt(time.Now().UnixNano(), 36),
	}
	for i := range o.Hosts {
		owner := "dev-" + strconv.Itoa(i+1)
		host, err := world.host(owner, s.at.of(owner), log)
		if err != nil {
			return nil, err
		}
		s.hosts = append(s.hosts, host)
	}
	return s, nil
}

// run writes until the time is up, ctx ends or a host fails, lets the handlers
// catch up, stops the hosts and replays dead letters. The handlers and hosts
// outlive ctx.
func (s *session) run(ctx context.Context) error {
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	var running sync.WaitGroup
	for _, h := range s.hosts {
		running.Go(func() {
			if err := h.Run(working); err != nil {
				stop(fmt.Errorf("host %s: %w", h.Owner(), err))
			}
		})
	}
	s.write(ctx, working)
	s.show.say("writing has ended; waiting for the handlers")
	catching, cancel := context.WithTimeout(working, catchUpTime)
	s.books.wait(catching)
	cancel()
	failure := context.Cause(working)
	stop(nil)
	running.Wait()
	if failure != nil {
		return failure
	}
	replaying, cancel := context.WithTimeout(context.WithoutCancel(ctx), catchUpTime)
	defer cancel()
	return s.replay(replaying)
}

// write runs the writer, and what goes on around it, until either context
// ends or the time is up.
func (s *session) write(ctx, working context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(working, cancel)()
	if s.options.For > 0 {
		defer time.AfterFunc(s.options.For, cancel).Stop()
	}
	var around sync.WaitGroup
	around.Go(func() { s.reshape(ctx) })
	around.Go(func() { s.show.follow(ctx, s.books, s.hosts) })
	s.writer.Run(ctx)
	around.Wait()
}

// reshape splits the first range after the time that is asked for, and merges
// its halves after as long again.
func (s *session) reshape(ctx context.Context) {
	d, show := s.options.SplitAfter, s.show
	if d == 0 || !pause(ctx, d) {
		return
	}
	children, err := s.split(ctx)
	if err != nil {
		show.say(err.Error())
		return
	}
	show.say(fmt.Sprintf("a range was split into %s and %s", children[0], children[1]))
	if !pause(ctx, d) {
		return
	}
	child, err := s.world.account.Merge(sampleDatabase, sampleResults, children...)
	if err != nil {
		show.say(err.Error())
		return
	}
	show.say(fmt.Sprintf("ranges %s and %s were merged into %s", children[0], children[1], child))
}

func (s *session) split(ctx context.Context) (children []string, err error) {
	var ranges []cosmos.Range
	if ranges, err = s.world.client.Container(sampleDatabase, sampleResults).Ranges(ctx); err != nil {
		return nil, err
	}
	return s.world.account.Split(sampleDatabase, sampleResults, ranges[0].ID)
}

// pause reports whether d passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
