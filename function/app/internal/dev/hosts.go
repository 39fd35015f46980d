//go:build !nodev

package dev

import (
	"context"
	"net/http"
	"sync/atomic"

	"go.uber.org/zap"

	"halley/function/app/internal/hosting"
	"halley/trigger/emulator"
)

// runHost is one host of a development run: an app of its own, as a separate process
// would have, with a link to the account that can be cut.
type runHost struct {
	*hosting.App
	link   *hostLink
	levels [2]zap.AtomicLevel // of its log and of that of its handlers
	end    context.CancelFunc // of its run; nil before; the session guards it
}

func (h *runHost) owner() string { return h.Settings.App.Owner }

// isKilled reports whether the host was killed.
func (h *runHost) isKilled() bool { return h.link.isCut.Load() }

// hostLink passes requests to the account in this process until it is cut.
type hostLink struct {
	account *emulator.Account
	isCut   atomic.Bool
}

// errCut is the error of all requests of a killed host.
type errCut struct{}

func (errCut) Error() string { return "the host was killed" }

// NonRetriable makes the client give up at once.
func (errCut) NonRetriable() {}

// Do sends a request. If the link is cut meanwhile, the answer is lost.
func (l *hostLink) Do(req *http.Request) (*http.Response, error) {
	if l.isCut.Load() {
		return nil, errCut{}
	}
	answer, err := l.account.Do(req)
	if err == nil && l.isCut.Load() {
		_ = answer.Body.Close() // it is in memory
		return nil, errCut{}
	}
	return answer, err
}
