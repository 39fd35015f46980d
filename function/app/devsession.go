//go:build !nodev

package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger"
)

// catchUpTime is the time that handlers get after the last write.
const catchUpTime = 30 * time.Second

// session is one development run: hosts of the app, its load, and the records of
// both.
type session struct {
	options  devOptions
	world    *devWorld
	settings *settings
	load     *DevRun
	show     *progress
	books    *ledger
	at       *positions
	poison   *poison
	apps     []*App // one for each host, as separate processes would have
}

// newSession opens the app once for each host, with one ledger between
// the runtime and the handlers of all. Close the session after use.
func newSession(ctx context.Context, o devOptions, world *devWorld, of *settings, run *DevRun, show *progress, log *zap.Logger) (*session, error) {
	s := &session{
		options: o, world: world, settings: of, load: run, show: show,
		books: run.books, at: newPositions(), poison: &poison{oneIn: o.Poison},
	}
	for i := range o.Hosts {
		own := *of
		own.App.Owner += "-" + strconv.Itoa(i+1)
		a, err := openApp(ctx, &own, appOptions{
			grace:     time.Duration(of.App.StopGrace),
			transport: world.account,
			wrap:      s.watch,
			observe:   s.at.of(own.App.Owner),
		}, log)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.apps = append(s.apps, a)
	}
	return s, nil
}

// watch puts the poison and the ledger before a function's handler, and the
// ledger before its store. A store that keeps nothing is not watched: a change
// that it drops is lost.
func (s *session) watch(fn *trigger.Function) {
	i := slices.Index(s.settings.App.Functions, fn.Name)
	fn.Handler = s.books.watch(i, s.poison.into(fn.Handler))
	if s.settings.Functions[i].DeadLetters.row().keeps {
		fn.DeadLetters = notedDeadLetters{fn.DeadLetters, s.books, i}
	}
}

// Close closes what the handlers opened, after run.
func (s *session) Close() error {
	var errs []error
	for _, a := range s.apps {
		errs = append(errs, a.Close())
	}
	return errors.Join(errs...)
}

// run writes until the time is up, ctx ends or a host fails, lets the handlers
// catch up, stops the hosts and replays dead letters. The handlers and hosts
// outlive ctx.
func (s *session) run(ctx context.Context) error {
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	var running sync.WaitGroup
	for _, a := range s.apps {
		running.Go(func() {
			if err := a.Run(working); err != nil {
				stop(fmt.Errorf("host %s: %w", a.settings.App.Owner, err))
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

// hosts lists the hosts of all applications.
func (s *session) hosts() (hosts []*trigger.Host) {
	for _, a := range s.apps {
		hosts = append(hosts, a.hosts...)
	}
	return hosts
}

// write runs the load, the splitting and the progress line until either context
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
	around.Go(func() { s.show.follow(ctx, s.books, s.hosts()) })
	if load := s.world.services.Load; load != nil {
		load(ctx, s.load)
	}
	<-ctx.Done()
	around.Wait()
}

// reshape splits the first range after --split-after, and merges its halves after
// the same time again.
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
	container := s.load.Monitored()[0]
	child, err := s.world.account.Merge(container.Database(), container.Name(), children...)
	if err != nil {
		show.say(err.Error())
		return
	}
	show.say(fmt.Sprintf("ranges %s and %s were merged into %s", children[0], children[1], child))
}

func (s *session) split(ctx context.Context) (children []string, err error) {
	container := s.load.Monitored()[0]
	ranges, err := container.Ranges(ctx)
	if err != nil {
		return nil, err
	}
	return s.world.account.Split(container.Database(), container.Name(), ranges[0].ID)
}
