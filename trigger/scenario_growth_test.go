package trigger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// requestedItems records how many changes each read of the feed asks for.
func (w *world) requestedItems() func() []int {
	var items []int
	w.onRequest = func(r *http.Request) {
		if n, err := strconv.Atoi(r.Header.Get("X-Ms-Max-Item-Count")); err == nil && isFeedRead(r) {
			w.mu.Lock()
			defer w.mu.Unlock()
			items = append(items, n)
		}
	}
	return func() []int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Clone(items)
	}
}

// A range that is behind is read in large pages. Once it has caught up, a page has the usual size.
func TestPagesGrowWhileARangeIsBehind(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		requested := w.requestedItems()
		w.writeMany("doc", 2500)
		stop := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(time.Minute)
		if items, want := requested(), []int{100, 1000, 1000, 1000, 1000}; len(items) < 6 || !slices.Equal(items[:5], want) || slices.Max(items[5:]) > 100 {
			t.Errorf("the reads ask for %v, want %v and then the usual size", items, want)
		}
		w.writeMany("more", 90)
		time.Sleep(time.Minute)
		if items := requested(); items[len(items)-1] != 100 {
			t.Errorf("caught up, a read asks for %d changes", items[len(items)-1])
		}
		stop()
		w.checkComplete(0)
	})
}

// Where positions inside a page have no names, only whole pages can be saved, and they stay small.
func TestPagesStaySmallWithoutPositions(t *testing.T) {
	withoutLSNs := func(w *world) func(*http.Request) (*http.Response, error, bool) {
		return func(r *http.Request) (*http.Response, error, bool) {
			w.onRequest(r)
			resp, err := w.account.Do(r)
			if err != nil || !isFeedRead(r) {
				return resp, err, true
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				return nil, err, true
			}
			resp.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(`"_lsn"`), []byte(`"_none"`))))
			resp.ContentLength = -1
			resp.Header.Del("Content-Length")
			return resp, nil, true
		}
	}
	for name, test := range map[string]struct {
		ranges  int
		network func(w *world) func(*http.Request) (*http.Response, error, bool)
		change  func(*Function, *Options)
		items   int
	}{
		"merged":       {2, nil, nil, 100},
		"without LSNs": {1, withoutLSNs, nil, 100},
		"a set size":   {1, nil, func(f *Function, _ *Options) { f.PageItems = 70 }, 70},
		"a limit of request units": {1, nil, func(f *Function, _ *Options) {
			f.ReadRequestUnits = 1000
		}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, test.ranges, func(t *testing.T, w *world) {
				if test.ranges == 2 {
					mergeRanges(t, w)
				}
				requested := w.requestedItems()
				w.writeMany("doc", 700)
				var change []func(*Function, *Options)
				if test.change != nil {
					change = append(change, test.change)
				}
				host := w.host("a", w.recorder("a"), change...)
				if test.network != nil {
					host = w.hostOn(hostNetwork{w, test.network(w)}, "a", w.recorder("a"), change...)
				}
				_, err := host.Drain(t.Context())
				must(t, err)
				if items := requested(); len(items) < 700/test.items || slices.Max(items) != test.items {
					t.Errorf("the reads ask for %v, want %d", items, test.items)
				}
				w.checkComplete(0)
			})
		})
	}
}

// A handler call does not return, and the other lanes go on as far as they may, in pages that have
// grown. After a kill, and after a stop in good order, the next owner repeats MaxAhead and a page
// of the usual size at most.
func TestLargePagesRepeatNoMore(t *testing.T) {
	const maxAhead = 200
	for _, killed := range []bool{true, false} {
		t.Run(fmt.Sprint("killed ", killed), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				requested := w.requestedItems()
				w.writeMany("early", 250)
				w.writeMany("doc", 2500)
				var isDead atomic.Bool
				network := hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
					w.onRequest(r)
					return nil, errors.New("killed"), isDead.Load()
				}}
				record := w.recorder("a")
				settings := func(f *Function, _ *Options) { f.Lanes, f.MaxAhead, f.MaxItemsPerInvocation = 8, maxAhead, 10 }
				stop := w.startHost(w.hostOn(network, "a", func(ctx context.Context, b Batch) error {
					if slices.ContainsFunc(b.Changes, func(c Change) bool { return c.ID() == "doc900" }) {
						<-ctx.Done()
						return context.Cause(ctx)
					}
					return record(ctx, b)
				}, settings, withoutLogger))
				time.Sleep(2 * time.Minute)
				if n := w.deliveryCount(); n < 250+900+maxAhead/2 || n > 250+900+maxAhead+100 {
					t.Errorf("%d changes are handled around the call that does not return", n)
				}
				if items := requested(); slices.Max(items) != 1000 {
					t.Errorf("the reads ask for %v: pages have not grown", items)
				}
				isDead.Store(killed)
				stop()
				time.Sleep(2 * time.Minute)
				_, err := w.host("b", w.recorder("b"), settings).Drain(t.Context())
				must(t, err)
				w.checkComplete(maxAhead + 100)
			})
		})
	}
}

// Functions that share reads grow together: all of them together read the pages of one.
func TestFunctionsThatShareReadsAskForTheSamePages(t *testing.T) {
	reads := func(functions ...Function) (items []int) {
		inWorld(t, 1, func(t *testing.T, w *world) {
			w.spendTime(10 * time.Millisecond)
			spend := w.onRequest
			requested := w.requestedItems()
			count := w.onRequest
			w.onRequest = func(r *http.Request) { count(r); spend(r) }
			w.writeMany("doc", 4300)
			got := make([]map[string][]string, len(functions))
			for i := range functions {
				got[i] = map[string][]string{}
				functions[i].Name, functions[i].Handler = fmt.Sprint("f", i), w.collector(got[i])
				functions[i].StartFrom = FromBeginning()
			}
			_, err := w.hostOf(t, Options{Logger: slog.New(slog.DiscardHandler)}, functions...).Drain(t.Context())
			must(t, err)
			for i := range got {
				if n := len(got[i]["0"]); n != 4300 {
					t.Errorf("function %d got %d changes", i, n)
				}
			}
			items = requested()
		})
		return items
	}
	alone := reads(Function{})
	if want := []int{100, 1000, 1000, 1000, 1000, 1000}; len(alone) < 6 || !slices.Equal(alone[:6], want) {
		t.Errorf("one function asks for %v, want %v", alone, want)
	}
	several := reads(Function{}, Function{BatchPolicy: BatchPolicy{Lanes: 4, MaxItemsPerInvocation: 7}}, Function{ReuseBuffers: true})
	if !slices.Equal(several, alone) {
		t.Errorf("three functions ask for %v, and one for %v", several, alone)
	}
}
