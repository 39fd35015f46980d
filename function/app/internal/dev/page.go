//go:build !nodev

package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"halley/function/app/internal/operatorpage"
	"halley/function/app/internal/page"
)

// listenForPage listens at the address of --page; without one it does so on a terminal.
// It returns nil if there is no page.
func listenForPage(o runFlags, onTerminal bool) (*operatorpage.Listener, error) {
	addr := o.Page
	switch {
	case addr == pageOff, addr == "" && !onTerminal:
		return nil, nil
	case addr == "", addr == pageOn:
		addr = ""
	}
	listener, err := net.Listen("tcp", cmp.Or(addr, operatorpage.DefaultAddr))
	if err != nil && addr == "" {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("--page: %w", err)
	}
	return &operatorpage.Listener{Listener: listener, Token: page.NewToken()}, nil
}

// servePage serves the page until stop is called.
func servePage(ctx context.Context, s *session, at *operatorpage.Listener) (stop func() error, err error) {
	if at == nil {
		return func() error { return nil }, nil
	}
	o, err := operatorpage.NewOperator(s.world.settings, s.world.account, s.opened)
	if err != nil {
		return nil, errors.Join(err, at.Close())
	}
	o.Log = s.log
	actions := pageActions{s, o}
	shown := o.Source(&operatorpage.Source{Hosts: s.pageHosts, Saved: s.at.saved, LagEvery: operatorpage.DevLagEvery})
	look := shown.Look
	shown.Look = func(ctx context.Context) page.State {
		state := look(ctx)
		state.Poison = s.poison.names()
		return state
	}
	p, err := page.New(page.Options{
		App: s.world.program.Name, Token: at.Token, Recorder: s.recorder, Actions: slices.Concat(actions.list(), o.Actions()), Log: s.log, Source: shown,
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

// pageHosts are the hosts of the run, as the page shows them.
func (s *session) pageHosts() (all []operatorpage.Host) {
	for _, h := range s.allHosts() {
		host := operatorpage.Host{Name: h.owner(), Killed: h.isKilled()}
		if !host.Killed {
			host.Status = h.Status()
		}
		all = append(all, host)
	}
	return all
}
