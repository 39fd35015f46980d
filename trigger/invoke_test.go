package trigger

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"halley/trigger/internal/delivery"
)

func TestHandlerDeadlineEndsCall(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 1)
		record := w.recorder("a")
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			if b.Attempt == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return record(ctx, b)
		}, func(f *Function, _ *Options) { f.HandlerTimeout = 20 * time.Second }))
		time.Sleep(time.Minute)
		stop()
		w.checkComplete(0)
	})
}

// A handler that ends its goroutine has failed. It does not count as hung.
func TestGoexitIsFailedAttempt(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 1)
		record := w.recorder("a")
		began := time.Now()
		h := w.host("a", func(ctx context.Context, b Batch) error {
			if b.Attempt == 1 {
				runtime.Goexit()
			}
			return record(ctx, b)
		})
		summary, err := h.Drain(t.Context())
		must(t, err)
		w.checkComplete(0)
		if took := time.Since(began); summary.Retries != 1 || took > time.Minute {
			t.Errorf("%+v after %v", summary, took)
		}
	})
}

func TestHungHandlerLosesRange(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 5)
		release := make(chan struct{})
		h := w.host("a", func(context.Context, Batch) error { <-release; return nil },
			func(f *Function, o *Options) { f.HandlerTimeout = time.Minute })
		stopA := w.startHost(h)
		time.Sleep(30 * time.Second)
		stopB := w.startHost(w.host("b", w.recorder("b")))
		time.Sleep(time.Minute)
		w.checkComplete(0)
		if l := w.leaseDocuments()["0"]; l.owner != "b" {
			t.Errorf("lease is held by %q", l.owner)
		}
		stopA()
		stopB()
		close(release)
	})
}

func TestTooManyHungHandlersEndRun(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		release := make(chan struct{})
		h := w.host("a", func(context.Context, Batch) error { <-release; return nil },
			func(f *Function, o *Options) { f.HandlerTimeout, o.MaxStuck = time.Minute, 1 })
		var hung *delivery.HungError
		if err := h.Run(t.Context()); !errors.As(err, &hung) {
			t.Errorf("run ended with %v", err)
		}
		close(release)
	})
}

// Opened, Closed and observers have no verdict. Their panics end neither the process
// nor the work on the range.
func TestCallbackThatPanicsIsReported(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		h := w.host("a", w.recorder("a"), func(f *Function, o *Options) {
			f.Opened = func(context.Context, RangeInfo) { panic("opened") }
			f.Closed = func(RangeInfo, CloseReason, error) { panic("closed") }
			o.Observers = append([]func(Event){func(Event) { panic("observer") }}, o.Observers...)
			o.Logger = nil
		})
		_, err := h.Drain(t.Context())
		must(t, err)
		w.checkComplete(0)
		if w.eventCount(EventDelivered) == 0 {
			t.Error("the observer after the one that panics saw nothing")
		}
	})
}

// TestHandlerErrorsDoNotShowSecretsOfURLs: the runtime logs a handler's error and
// stores it, and errors of net/http hold the whole URL.
func TestHandlerErrorsDoNotShowSecretsOfURLs(t *testing.T) {
	const canary = "CANARYsecret"
	request := &url.Error{Op: "Post", URL: "https://user:" + canary + "@hooks.example/a?token=" + canary, Err: context.DeadlineExceeded}
	first, second := Change{callNumber: 1}, Change{callNumber: 2}
	for name, handler := range map[string]Handler{
		"error":          func(context.Context, Batch) error { return fmt.Errorf("notify: %w", request) },
		"partial":        func(context.Context, Batch) error { return Failed(request, second) },
		"skip":           func(context.Context, Batch) error { return Skip(Failed(request, second)) },
		"panic":          func(context.Context, Batch) error { panic(request) },
		"panic with URL": func(context.Context, Batch) error { panic("cannot reach " + request.URL) },
	} {
		t.Run(name, func(t *testing.T) {
			err := recoverPanic(t.Context(), handler, Batch{Changes: []Change{first, second}})
			if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), canary) {
				t.Errorf("error is %v", err)
			}
			fates, end := judgeBatch([]int64{first.callNumber, second.callNumber}, err, true)
			partial, failed := name == "partial" || name == "skip", countFailed(fates)
			if failed != 1 && partial || failed != 2 && !partial || (end == endGivenUp) != (name == "skip") {
				t.Errorf("verdict: %v failed, end %v", failed, end)
			}
			if name != "panic with URL" && !errors.Is(err, context.DeadlineExceeded) {
				t.Error("the cause is lost")
			}
		})
	}
}
