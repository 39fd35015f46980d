// Package operatorpage joins the page with the hosts, the leases and the stores of an app:
// what it shows, and the actions that it has.
package operatorpage

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"go.uber.org/zap"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/page"
	"halley/function/app/internal/settings"
	"halley/handlers"
	"halley/trigger"
)

// DefaultAddr is the address of the page if none is given.
const DefaultAddr = "127.0.0.1:8082"

// Listener is the place of the page before the page itself is there.
type Listener struct {
	net.Listener
	Token   string
	private bool // other machines can reach it
	given   bool // the token is that of the settings
}

// Shut closes a listener that may not have been served.
func (l *Listener) Shut() {
	if l != nil {
		_ = l.Close() // serving may have closed it before
	}
}

// Address is that of the page. It has the token unless the settings have.
func (l *Listener) Address() string {
	address := "http://" + l.Addr().String() + "/"
	if l.given {
		return address
	}
	return address + "?token=" + l.Token
}

// Listen listens at the address of run --page; "" is nowhere, and returns nil.
// Beyond loopback, the settings must have a token.
func Listen(addr string, s *settings.Settings) (*Listener, error) {
	if addr == "" {
		return nil, nil
	}
	if err := s.App.CheckPageToken(); err != nil {
		return nil, err
	}
	l := &Listener{Token: cmp.Or(s.App.PageToken.Reveal(), page.NewToken()), given: s.App.PageToken != "", private: !handlers.IsLoopback(addr)}
	if l.private && !l.given {
		return nil, fmt.Errorf("--page %s can be reached by other machines: set HALLEY_PAGE_TOKEN, which all viewers then need, or listen on %s", addr, DefaultAddr)
	}
	var err error
	if l.Listener, err = net.Listen("tcp", addr); err != nil {
		return nil, fmt.Errorf("--page %s: write an address such as %s: %w", addr, DefaultAddr, err)
	}
	return l, nil
}

// OperatorPage is the page of a host in production.
type OperatorPage struct {
	settings *settings.Settings
	Recorder *page.Recorder
}

// New returns the page of a host that runs with these settings.
func New(s *settings.Settings) *OperatorPage {
	return &OperatorPage{s, &page.Recorder{FailuresOnly: true}}
}

// Observe has the app tell the page of its calls, dead letters and leases.
func (p *OperatorPage) Observe(options *hosting.Options) {
	options.Wrap = func(fn *trigger.Function) {
		fn.Handler = p.Recorder.Watch("", fn.MaxAttempts, fn.Handler)
		for _, f := range p.settings.Functions {
			if f.Name == fn.Name && f.DeadLetters.Row().Keeps {
				fn.DeadLetters = page.WatchDeadLetters(p.Recorder, fn.DeadLetters)
			}
		}
	}
	options.Observe = func(e trigger.Event) { p.Recorder.Observe("", e) }
}

// open returns the page of an app. Close it after use.
func (p *OperatorPage) open(name string, a *hosting.App, at page.Options) (*page.Page, error) {
	o, err := NewOperator(p.settings, a.Transport(), func(function string) (trigger.Function, error) {
		fn, ok := a.Opened[function]
		if !ok {
			return fn, fmt.Errorf("no function %q is enabled", function)
		}
		return fn, nil
	})
	if err != nil {
		return nil, err
	}
	o.Log = a.Log
	at.App, at.Recorder, at.Actions, at.Log, at.Hidden = name, p.Recorder, o.Actions(), a.Log, bool(p.settings.App.PageHideDocuments)
	at.Source = o.Source(&Source{Hosts: func() []Host { return pageHosts(a) }, LagEvery: pageLagEvery})
	return page.New(at)
}

// OpenWrapped returns the page of an app under the Functions host, nil without a token.
func (p *OperatorPage) OpenWrapped(name string, a *hosting.App) (*page.Page, error) {
	if p.settings.App.PageToken == "" {
		return nil, nil
	}
	if err := p.settings.App.CheckPageToken(); err != nil {
		return nil, err
	}
	return p.open(name, a, page.Options{Token: p.settings.App.PageToken.Reveal(), Private: true, Polled: true})
}

// pageHosts are the hosts of the app, as the page shows them.
func pageHosts(a *hosting.App) (all []Host) {
	byName := map[string]int{}
	for _, status := range a.Status() {
		i, ok := byName[status.Owner]
		if !ok {
			i = len(all)
			byName[status.Owner] = i
			all = append(all, Host{Name: status.Owner})
		}
		all[i].Status = append(all[i].Status, status)
	}
	return all
}

// Serve serves the page while run runs.
func (p *OperatorPage) Serve(ctx context.Context, name string, a *hosting.App, at *Listener, run func(context.Context) error) error {
	shown, err := p.open(name, a, page.Options{Token: at.Token, Private: at.private})
	if err != nil {
		at.Shut()
		return err
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- shown.Serve(serving, at) }()
	err = run(ctx)
	end()
	if failed := <-served; failed != nil {
		a.Log.Error("the page is not served any more", zap.Error(failed))
	}
	shown.Close()
	return err
}
