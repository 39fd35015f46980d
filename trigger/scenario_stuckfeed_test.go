package trigger

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// stuckFeed is the network of a host: while it is stuck, reads of the feed are answered
// with 200 and their own etag, with the changes or without.
type stuckFeed struct {
	stuck, empty atomic.Bool
	reads        atomic.Int64
}

func (s *stuckFeed) network(w *world) hostNetwork {
	return hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
		position := r.Header.Get("If-None-Match")
		if !isFeedRead(r) || !s.stuck.Load() || position == "" || position == "*" {
			return nil, nil, false
		}
		s.reads.Add(1)
		if s.empty.Load() {
			return &http.Response{
				StatusCode: http.StatusOK, ContentLength: -1, Header: http.Header{"Etag": {position}}, Request: r,
				Body: io.NopCloser(strings.NewReader(`{"_rid":"x","Documents":[],"_count":0}`)),
			}, nil, true
		}
		resp, err := w.account.Do(r)
		if err == nil && resp.StatusCode == http.StatusOK {
			resp.Header.Set("Etag", position)
		}
		return resp, err, true
	}}
}

func TestEmptyPageAtItsOwnPositionIsIdle(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var feed stuckFeed
		h := w.hostOn(feed.network(w), "a", w.recorder("a"))
		stop := w.startHost(h)
		w.writeMany("first", 5)
		time.Sleep(time.Minute)
		feed.empty.Store(true)
		feed.stuck.Store(true)
		for range 100 {
			time.Sleep(6 * time.Second)
			if ranges := h.Status().Functions[0].Ranges; len(ranges) != 1 || ranges[0].Problem != "" || ranges[0].Behind != 0 || !ranges[0].BehindKnown {
				t.Errorf("ranges %+v", ranges)
			}
		}
		if n := feed.reads.Load(); n < 100 || n > 125 {
			t.Errorf("%d reads in 10 min, an idle range has 120", n)
		}
		summary, err := w.hostOn(feed.network(w), "b", w.recorder("b"), func(f *Function, _ *Options) { f.Name = "drained" }).Drain(t.Context())
		if err != nil || summary.Problem != "" || summary.Drained != 1 {
			t.Errorf("drain: %+v, %v", summary, err)
		}
		feed.stuck.Store(false)
		w.writeMany("last", 5)
		time.Sleep(10 * time.Second)
		if n := w.eventCount(EventReleased); n != 1 { // that of the drain
			t.Errorf("%d releases", n)
		}
		stop()
		w.checkComplete(5)
	})
}

func TestFeedThatDoesNotAdvanceIsAProblemAtAllTimes(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var feed stuckFeed
		h := w.hostOn(feed.network(w), "a", w.recorder("a"), withoutLogger)
		stop := w.startHost(h)
		w.writeMany("first", 5)
		time.Sleep(time.Minute)
		feed.stuck.Store(true)
		w.writeMany("doc", 5)
		for range 200 {
			time.Sleep(6 * time.Second)
			if ranges := h.Status().Functions[0].Ranges; len(ranges) != 1 || !strings.Contains(ranges[0].Problem, "the same continuation") {
				t.Fatalf("ranges %+v", ranges)
			}
		}
		if n := feed.reads.Load(); n > 600 {
			t.Errorf("%d reads in 20 min", n)
		}
		_, err := w.hostOn(feed.network(w), "b", w.recorder("b"), withoutLogger).Drain(t.Context()) // it ends
		must(t, err)
		feed.stuck.Store(false)
		time.Sleep(10 * time.Second)
		if n := w.eventCount(EventReleased); n != 0 {
			t.Errorf("%d releases", n)
		}
		stop()
		w.checkComplete(0)
	})
}
