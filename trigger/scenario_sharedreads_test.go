package trigger

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"
)

// readsOf writes to a container of three ranges for a while, in bursts and one by one,
// and returns the feed reads of a host with the functions, and the ids of the
// changes that each function got, by range.
func readsOf(t *testing.T, functions ...Function) (feedReads int, got []map[string][]string) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.spendTime(10 * time.Millisecond)
		got = make([]map[string][]string, len(functions))
		for i := range functions {
			got[i] = map[string][]string{}
			functions[i].Name = fmt.Sprintf("f%d", i)
			functions[i].Handler = w.collector(got[i])
		}
		oldCounts := w.countRequests()
		stop := w.startHost(w.hostOf(t, Options{Logger: slog.New(slog.DiscardHandler)}, functions...))
		for round := range 30 {
			w.writeMany(fmt.Sprintf("doc%d-", round), 20*(round%4))
			time.Sleep(time.Duration(round%7) * 3 * time.Second)
			w.write("single", fmt.Sprint("single", round))
			time.Sleep(10 * time.Second)
		}
		time.Sleep(11 * time.Second) // so that each function has polled
		stop()
		feedReads = w.countRequests().minus(oldCounts).feed
	})
	return feedReads, got
}

// spendTime lets each feed read take some time.
func (w *world) spendTime(d time.Duration) {
	w.onRequest = func(r *http.Request) {
		if isFeedRead(r) {
			time.Sleep(d)
		}
	}
}

// collector returns a handler that collects the ids of its changes by range.
func (w *world) collector(to map[string][]string) Handler {
	return func(_ context.Context, b Batch) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range b.Changes {
			to[b.Range.ID] = append(to[b.Range.ID], c.ID())
		}
		return nil
	}
}

func TestFunctionsOnOneContainerReadItOnce(t *testing.T) {
	alone, want := readsOf(t, Function{})
	for name, c := range map[string]struct {
		functions   []Function
		least, most float64 // feed reads, as a multiple of those of one function
	}{
		"two":             {[]Function{{}, {}}, 1, 1.05},
		"four":            {[]Function{{}, {}, {}, {}}, 1, 1.05},
		"reusing buffers": {[]Function{{ReuseBuffers: true}, {}, {ReuseBuffers: true}}, 1, 1.05},
		"lanes":           {[]Function{{}, {BatchPolicy: BatchPolicy{Lanes: 4}}}, 1, 1.05},
		"other poll rate": {[]Function{{}, {RateLimits: RateLimits{FeedPollDelay: 20 * time.Second}}}, 1, 1.2},
		"other batches":   {[]Function{{}, {BatchPolicy: BatchPolicy{MaxItemsPerInvocation: 7}}}, 1, 1.05},
		"other page size": {[]Function{{}, {BatchPolicy: BatchPolicy{PageItems: 99}}}, 1.9, 2.1},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "four" || name == "other batches" {
				inLongForm(t)
			}
			functions := c.functions
			reads, got := readsOf(t, functions...)
			t.Logf("%d feed reads, one function needs %d", reads, alone)
			if times := float64(reads) / float64(alone); times < c.least || times > c.most {
				t.Errorf("%.2f times as many feed reads, %g to %g wanted", times, c.least, c.most)
			}
			for i := range got {
				for token := range want[0] {
					sorted, expected := slices.Clone(got[i][token]), slices.Clone(want[0][token])
					if functions[i].Lanes > 1 {
						slices.Sort(sorted)
						slices.Sort(expected)
					}
					if len(sorted) == 0 || !slices.Equal(sorted, expected) {
						t.Errorf("function %d got %d changes of range %s, and alone it gets %d, or others", i, len(sorted), token, len(expected))
					}
				}
			}
		})
	}
}

// drainsOf drains a container of three ranges with the functions, with and without
// changes, and returns the feed reads and the changes that were handled.
func drainsOf(t *testing.T, functions ...Function) (feedReads, changes int) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.spendTime(10 * time.Millisecond)
		for i := range functions {
			functions[i].Name, functions[i].Handler = fmt.Sprintf("f%d", i), w.recorder("a")
		}
		h := w.hostOf(t, Options{Logger: slog.New(slog.DiscardHandler)}, functions...)
		for round := range 10 {
			if round%2 == 0 {
				w.writeMany(fmt.Sprintf("doc%d-", round), 50*round)
			}
			s, err := h.Drain(t.Context())
			must(t, err)
			if s.Behind > 0 || s.Changes != 50*len(functions)*(1-round%2)*round {
				t.Errorf("drain %d: %+v", round, s)
			}
			changes += s.Changes
			time.Sleep(time.Minute)
		}
		feedReads = w.countRequests().feed
		if used := h.host.pageBudget.UsedBytes(); used != 0 {
			t.Errorf("%d bytes are never released", used)
		}
	})
	return feedReads, changes
}

func TestDrainsOfFunctionsOnOneContainerReadItOnce(t *testing.T) {
	alone, shared := drainsOf(t, Function{})
	reads, twice := drainsOf(t, Function{}, Function{})
	t.Logf("%d feed reads, one function needs %d", reads, alone)
	if reads > alone+alone/10 || twice != 2*shared {
		t.Errorf("%d feed reads, and %d with one function; %d changes, and %d", reads, alone, twice, shared)
	}
}

// TestSharedReadsDoNotDelayChanges: two functions poll at rates of their own, and a
// single change reaches each of them within its poll delay.
func TestSharedReadsDoNotDelayChanges(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		delays := []time.Duration{4 * time.Second, 15 * time.Second}
		var written time.Time
		latest := make([]time.Duration, len(delays))
		functions := make([]Function, len(delays))
		for i, delay := range delays {
			functions[i] = Function{FeedSource: FeedSource{Name: fmt.Sprint("f", i)}, RateLimits: RateLimits{FeedPollDelay: delay}, Handler: func(context.Context, Batch) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				latest[i] = max(latest[i], time.Since(written))
				return nil
			}}
		}
		defer w.startHost(w.hostOf(t, Options{Logger: slog.New(slog.DiscardHandler)}, functions...))()
		time.Sleep(time.Minute + 50*time.Millisecond)
		for round := range 100 {
			w.mu.Lock()
			written = time.Now()
			w.mu.Unlock()
			w.write("single", fmt.Sprint("single", round))
			time.Sleep(40*time.Second + time.Duration(round*round%19)*700*time.Millisecond)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for i, delay := range delays {
			if latest[i] > delay || latest[i] == 0 {
				t.Errorf("a change reached the function that polls every %v after %v", delay, latest[i])
			}
		}
	})
}

// A function that shares its reads keeps its limit: it pays for each read that it sends.
// What another function has read costs it nothing.
func TestSharedReadsKeepTheLimitOfTheirSender(t *testing.T) {
	const limit, idle = 3.0, 20.0 // units a second; seconds between two reads of a function that rarely reads
	for _, test := range []struct {
		name         string
		first, other Function
		most         float64 // units a second of both
	}{
		{"the limited one reads", Function{RateLimits: RateLimits{ReadRequestUnits: limit}}, Function{RateLimits: RateLimits{FeedPollDelay: idle * time.Second, FeedPollMin: idle * time.Second}}, limit + 4/idle},
		{"both have limits", Function{RateLimits: RateLimits{ReadRequestUnits: limit}}, Function{RateLimits: RateLimits{ReadRequestUnits: limit}}, 2 * limit},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, 4, func(t *testing.T, w *world) {
				transport := &chargedTransport{countingTransport: countingTransport{w}}
				container := w.clientOn(transport).Container("db", "items")
				test.first.Name, test.other.Name, test.first.FeedPollDelay = "first", "other", 100*time.Millisecond
				got := []map[string][]string{{}, {}}
				functions := []Function{test.first, test.other}
				for i := range functions {
					functions[i].Handler, functions[i].Container = w.collector(got[i]), container
				}
				stop := w.startHost(w.hostOf(t, Options{Logger: slog.New(slog.DiscardHandler)}, functions...))
				time.Sleep(time.Minute)
				transport.mu.Lock()
				transport.units, transport.reads = 0, 0
				transport.mu.Unlock()
				time.Sleep(2 * time.Minute)
				transport.mu.Lock()
				if bound := test.most*121 + 8; transport.units > bound || transport.units < limit*100 {
					t.Errorf("%d reads cost %g units in two minutes, at most %g are allowed", transport.reads, transport.units, bound)
				}
				transport.mu.Unlock()
				w.writeMany("doc", 40)
				time.Sleep(3 * time.Minute)
				stop()
				for i := range got {
					if n := len(slices.Concat(got[i]["0"], got[i]["1"], got[i]["2"], got[i]["3"])); n != 40 {
						t.Errorf("function %d got %d changes of 40", i, n)
					}
				}
			})
		})
	}
}

// Two ranges that stood at one position have merged: the leases read one physical range from
// there, each with its own keys. A function does not get the other part's page.
func TestSharedReadsOfMergedRangesKeepTheirKeys(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		got := []map[string][]string{{}, {}}
		host := func() *Host {
			functions := []Function{{FeedSource: FeedSource{Name: "first", StartFrom: FromBeginning()}}, {FeedSource: FeedSource{Name: "second", StartFrom: FromBeginning()}}}
			for i := range functions {
				functions[i].Handler = w.collector(got[i])
			}
			return w.hostOf(t, Options{Logger: slog.New(slog.DiscardHandler)}, functions...)
		}
		_, err := host().Drain(t.Context())
		must(t, err)
		_, err = w.account.Merge("db", "items", "0", "1")
		must(t, err)
		w.writeMany("doc", 60)
		_, err = host().Drain(t.Context())
		must(t, err)
		for i := range got {
			ids := slices.Concat(slices.Collect(maps.Values(got[i]))...)
			slices.Sort(ids)
			if len(got[i]) != 2 || len(ids) != 60 || len(slices.Compact(ids)) != 60 {
				t.Errorf("function %d got %d changes of 60 in %d ranges", i, len(ids), len(got[i]))
			}
		}
	})
}
