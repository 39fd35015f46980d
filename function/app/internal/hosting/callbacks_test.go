package hosting_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/hosttest"
	"halley/function/app/internal/settings"
	"halley/handlers"
	"halley/trigger"
	"halley/trigger/emulator"
)

// bufferedSink keeps the changes of a range in memory until it is flushed.
type bufferedSink struct {
	mu       sync.Mutex
	flushErr error
	kept     map[string]int // by lease token
	written  int
	calls    []string
}

func (s *bufferedSink) open(_ context.Context, env handlers.Env, _ struct{}) (trigger.Handler, func() error, error) {
	env.FollowRanges(handlers.RangeCallbacks{
		Opened: func(_ context.Context, r trigger.RangeInfo) { s.called("opened " + r.Range.ID) },
		Flush: func(_ context.Context, r trigger.RangeInfo) error {
			s.called("flushed " + r.Range.ID)
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.flushErr == nil {
				s.written += s.kept[r.Range.ID]
				s.kept[r.Range.ID] = 0
			}
			return s.flushErr
		},
		Closed: func(r trigger.RangeInfo, _ trigger.CloseReason, _ error) {
			s.called("closed " + r.Range.ID)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.kept[r.Range.ID] = 0
		},
	})
	return func(_ context.Context, b trigger.Batch) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.kept[b.Range.ID] += len(b.Changes)
		return nil
	}, nil, nil
}

func (s *bufferedSink) called(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
}

// setFlushError has Flush fail with err, or succeed if it is nil.
func (s *bufferedSink) setFlushError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushErr = err
}

// A handler that keeps changes in memory loses none and repeats none: the app calls its
// callbacks, saves only what it has flushed, and counts its flushes.
func TestHandlerThatBuffersIsFlushed(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	env := account.Env()
	env["HALLEY_FUNCTIONS"] = "buffer"
	apptest.CleanEnv(t, env)
	sink := &bufferedSink{kept: map[string]int{}, flushErr: errors.New("sink is down")}
	a := openWith(t, handlers.New("buffer", "keeps changes", sink.open))
	account.Write(t, 0, 20)
	for _, step := range []struct {
		flushErr         error
		changes, written int
	}{{errors.New("sink is down"), 20, 0}, {nil, 20, 20}, {nil, 0, 20}} {
		sink.setFlushError(step.flushErr)
		summary, err := a.Drain(t.Context())
		if err != nil || summary.Changes != step.changes || sink.written != step.written {
			t.Errorf("Flush says %v: %d changes delivered and %d written, want %+v; %v", step.flushErr, summary.Changes, sink.written, step, err)
		}
	}
	calls := strings.Join(sink.calls, ", ")
	for _, call := range []string{"opened 0", "flushed 0", "closed 0", "opened 1", "flushed 1", "closed 1"} {
		if strings.Count(calls, call) != 2 {
			t.Errorf("calls are %s, want %s twice", calls, call)
		}
	}
	_, body := get(t, a, "/metrics")
	for _, says := range []string{`halley_flushes_total{function="buffer",outcome="failed"} 2`, `halley_flushes_total{function="buffer",outcome="flushed"} 2`} {
		if !strings.Contains(body, says) {
			t.Errorf("/metrics lacks %s", says)
		}
	}
}

// A handler that keeps no bytes of a batch has the buffers of its pages used again. All others
// may keep what they get.
func TestHandlerThatBorrowsBatches(t *testing.T) {
	for _, borrows := range []bool{true, false} {
		account := apptest.ServeAccount(t, emulator.ServeOptions{})
		env := account.Env()
		env["HALLEY_FUNCTIONS"] = "sink"
		apptest.CleanEnv(t, env)
		a := openWith(t, handlers.New("sink", "keeps nothing", func(_ context.Context, env handlers.Env, _ struct{}) (trigger.Handler, func() error, error) {
			if borrows {
				env.BorrowBatches()
			}
			return func(context.Context, trigger.Batch) error { return nil }, nil, nil
		}))
		if got := a.Opened["sink"].ReuseBuffers; got != borrows {
			t.Errorf("ReuseBuffers is %v, and the handler borrows batches: %v", got, borrows)
		}
	}
}

// openWith opens the app of the environment with a further handler.
func openWith(t *testing.T, handler handlers.Entry) *hosting.App {
	t.Helper()
	source := hosttest.Program().Source
	source.Handlers = append(source.Handlers, handler)
	s, err := settings.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	a, err := hosting.Open(t.Context(), s, hosting.Options{Grace: time.Second}, hosting.JSONLogger(io.Discard, "error"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}
