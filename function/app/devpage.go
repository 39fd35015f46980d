//go:build !nodev

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"time"

	"halley/function/app/internal/connection"
	"halley/function/app/internal/page"
	"halley/trigger"
)

// defaultPageAddr is the address of the page of a development run.
const defaultPageAddr = "127.0.0.1:8082"

// Values of --page that are no address.
const (
	pageOn  = "on"
	pageOff = "off"
)

// pageListener is the place of the page before the page itself is there.
type pageListener struct {
	net.Listener
	token string
}

// listenForPage listens at the address of --page; without one it does so on a terminal,
// unless the handlers run in another process. It returns nil if there is no page.
func listenForPage(o devOptions, onTerminal bool) (*pageListener, error) {
	addr := o.Page
	switch {
	case addr == pageOff, addr == "" && (!onTerminal || o.Watch):
		return nil, nil
	case addr == "", addr == pageOn:
		addr = ""
	}
	listener, err := net.Listen("tcp", cmp.Or(addr, defaultPageAddr))
	if err != nil && addr == "" {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("--page: %w", err)
	}
	return &pageListener{listener, page.NewToken()}, nil
}

// close closes a listener that may not have been served.
func (l *pageListener) close() {
	if l != nil {
		_ = l.Close() // serving may have closed it before
	}
}

// checkPage refuses addresses that other machines can reach.
func (o devOptions) checkPage() error {
	switch {
	case o.Page == "", o.Page == pageOn, o.Page == pageOff:
		return nil
	case o.Watch:
		return errors.New("--page with --watch: watched handlers run in another process, which the page does not see; leave out one of the flags")
	}
	if _, _, err := net.SplitHostPort(o.Page); err != nil {
		return fmt.Errorf("--page %s: write an address such as %s, or off: %w", o.Page, defaultPageAddr, err)
	}
	if !connection.IsLoopback(o.Page) {
		return fmt.Errorf("--page %s can be reached by other machines, and the page shows documents: listen on 127.0.0.1", o.Page)
	}
	return nil
}

// address is that of the page, with the token that permits actions.
func (l *pageListener) address() string {
	return "http://" + l.Addr().String() + "/?token=" + l.token
}

// servePage serves the page until stop is called.
func (s *session) servePage(ctx context.Context, at *pageListener) (stop func() error, err error) {
	if at == nil {
		return func() error { return nil }, nil
	}
	actions := devActions{s}
	p, err := page.New(page.Options{
		App: s.world.app.Name, Token: at.token, Recorder: s.recorder, Actions: actions.list(), Log: s.log,
		Source: page.Source{Look: (&devSource{session: s}).look, DeadLetters: s.deadLetters, Settings: s.pageSettings()},
	})
	if err != nil {
		return nil, errors.Join(err, at.Close())
	}
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, at) }()
	return func() error {
		end()
		err := <-served
		p.Close()
		return err
	}, nil
}

func (s *session) pageSettings() (all []page.Setting) {
	for _, v := range s.world.settings.Values {
		all = append(all, page.Setting{Name: v.Name, Value: v.Value, Source: v.Source})
	}
	return all
}

// deadLetters yields those of all functions that keep them.
func (s *session) deadLetters(ctx context.Context) iter.Seq2[trigger.DeadLetter, error] {
	return func(yield func(trigger.DeadLetter, error) bool) {
		for _, f := range s.world.settings.Functions {
			if !f.DeadLetters.row().keeps {
				continue
			}
			fn, err := s.opened(f.Name)
			if err != nil {
				if !yield(trigger.DeadLetter{}, err) {
					return
				}
				continue
			}
			for d, err := range fn.DeadLetters.List(ctx, fn.DeadLetterSource()) {
				if !yield(d, err) {
					return
				}
			}
		}
	}
}

// devSource tells the page of the hosts of a development run. Its method is called by
// one goroutine at a time.
type devSource struct {
	session *session
	lags    []functionLag // of a moment ago
	lagsAt  time.Time
	live    int // hosts at that moment
}

// lagEvery is the time between two looks at the leases. The hosts know the ranges that
// they hold; the leases tell of the others.
const lagEvery = 2 * time.Second

func (d *devSource) look(ctx context.Context) page.State {
	s := d.session
	if live := len(s.liveHosts()); live != d.live || time.Since(d.lagsAt) >= lagEvery {
		d.lags, d.lagsAt, d.live = s.look(ctx), time.Now(), live
	}
	state := page.State{Poison: s.poison.names()}
	held := map[[2]string]page.Range{}
	owners := map[string]bool{}
	problems := map[string]string{}
	for _, h := range s.allHosts() {
		host := page.Host{Name: h.owner(), State: "running"}
		if h.isKilled() {
			host.State = "killed"
			state.Hosts = append(state.Hosts, host)
			continue
		}
		owners[host.Name] = true
		for _, part := range h.Status() {
			for _, f := range part.Functions {
				problems[f.Name] = cmp.Or(problems[f.Name], f.Problem)
				host.Leases += len(f.Ranges)
				for _, r := range f.Ranges {
					held[[2]string{f.Name, r.Range}] = heldRange(f.Name, host.Name, r)
				}
			}
		}
		state.Hosts = append(state.Hosts, host)
	}
	for _, f := range s.world.settings.Functions {
		state.Functions = append(state.Functions, page.Function{
			Name: f.Name, Container: f.DatabaseName + "/" + f.ContainerName, DeadLetters: f.DeadLetters.String(),
			Keeps: f.DeadLetters.row().keeps, Problem: problems[f.Name],
		})
	}
	state.Ranges = d.ranges(held, owners)
	return state
}

// ranges are the ranges that hosts hold, and the leases that no running host has.
func (d *devSource) ranges(held map[[2]string]page.Range, owners map[string]bool) (all []page.Range) {
	for _, at := range d.session.at.list() {
		key := [2]string{at.Function, at.Range}
		if r, ok := held[key]; ok {
			r.Continuation = at.Continuation
			held[key] = r
		}
	}
	for _, f := range d.lags {
		for _, l := range f.Leases {
			if _, ok := held[[2]string{f.Name, l.Range}]; !ok && !owners[l.Owner] {
				all = append(all, leasedRange(l))
			}
		}
	}
	for _, r := range held {
		all = append(all, r)
	}
	return all
}

// heldRange is a range that a host of this process holds.
func heldRange(function, owner string, r trigger.RangeStatus) page.Range {
	row := page.Range{
		Function: function, Range: r.Range, Owner: owner, Epoch: r.Epoch, LastLSN: r.LastLSN,
		Changes: r.Behind, Exact: r.Behind == 0, Known: r.BehindKnown, Seconds: r.BehindSeconds,
		Batches: r.Batches, Handled: r.Changes, Retries: r.Retries, DeadLetters: r.DeadLetters, Problem: r.Problem,
	}
	if len(r.Stalls) > 0 {
		row.Advice = r.Stalls[0].Advice()
	}
	return row
}

// leasedRange is a range as its lease tells of it.
func leasedRange(l trigger.Lag) page.Range {
	row := page.Range{
		Function: l.Function, Range: l.Range, Owner: l.Owner, Continuation: l.Continuation,
		Changes: l.Changes, Exact: l.Exact, Known: l.Known, Seconds: l.Seconds, DeadLetters: l.DeadLettered, Problem: l.Problem,
	}
	if len(l.Stalls) > 0 {
		row.Advice = l.Stalls[0].Advice()
	}
	return row
}
