package cosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// feedHeaders are the headers that select the page.
var feedHeaders = []string{
	"A-IM", "If-None-Match", "If-Modified-Since", "x-ms-documentdb-partitionkeyrangeid", "x-ms-read-key-type",
	"x-ms-start-epk", "x-ms-end-epk", "x-ms-cosmos-intended-collection-rid", "x-ms-max-item-count", "x-ms-continuation", "x-ms-documentdb-partitionkey",
}

func headersOf(h http.Header, names []string) map[string]string {
	got := map[string]string{}
	for _, name := range names {
		if v := h.Get(name); v != "" {
			got[name] = v
		}
	}
	return got
}

func TestFeedRequestHeaders(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 700e6, time.FixedZone("CET", 3600))
	for name, test := range map[string]struct {
		request FeedRequest
		want    map[string]string // in addition to A-IM
	}{
		"beginning": {FeedRequest{Range: wholeRange},
			map[string]string{"x-ms-documentdb-partitionkeyrangeid": "0", "x-ms-max-item-count": "-1"}},
		"whole of unknown bounds": {FeedRequest{Range: Range{ID: "7"}},
			map[string]string{"x-ms-documentdb-partitionkeyrangeid": "7", "x-ms-max-item-count": "-1"}},
		"now": {FeedRequest{Range: wholeRange, Start: StartNow},
			map[string]string{"If-None-Match": "*", "x-ms-documentdb-partitionkeyrangeid": "0", "x-ms-max-item-count": "-1"}},
		"time": {FeedRequest{Range: wholeRange, Start: StartAt(noon)},
			map[string]string{"If-Modified-Since": "Sun, 01 Mar 2026 10:59:59 GMT", "x-ms-documentdb-partitionkeyrangeid": "0", "x-ms-max-item-count": "-1"}},
		"continuation": {FeedRequest{Range: wholeRange, Start: StartNow, Continuation: `"17"`, MaxItems: 50, ResourceID: "Sl8fALN4sw4="},
			map[string]string{"x-ms-cosmos-intended-collection-rid": "Sl8fALN4sw4=", "If-None-Match": `"17"`, "x-ms-documentdb-partitionkeyrangeid": "0", "x-ms-max-item-count": "50"}},
		"continuation and time": {FeedRequest{Range: wholeRange, Start: StartAt(noon), Continuation: `"17"`},
			map[string]string{"If-None-Match": `"17"`, "If-Modified-Since": "Sun, 01 Mar 2026 10:59:59 GMT", "x-ms-documentdb-partitionkeyrangeid": "0", "x-ms-max-item-count": "-1"}},
		"the range's own bounds": {FeedRequest{Range: middleRange, Min: "10", Max: "20"},
			map[string]string{"x-ms-documentdb-partitionkeyrangeid": "2", "x-ms-max-item-count": "-1"}},
		"equal bounds with zeros": {FeedRequest{Range: middleRange, Min: "1000", Max: "200000"},
			map[string]string{"x-ms-documentdb-partitionkeyrangeid": "2", "x-ms-max-item-count": "-1"}},
		"narrower": {FeedRequest{Range: middleRange, Min: "12", Max: "18"},
			map[string]string{"x-ms-documentdb-partitionkeyrangeid": "2", "x-ms-max-item-count": "-1",
				"x-ms-read-key-type": "EffectivePartitionKeyRange", "x-ms-start-epk": "12", "x-ms-end-epk": "18"}},
		"narrower below": {FeedRequest{Range: middleRange, Min: "12", Max: "20"},
			map[string]string{"x-ms-documentdb-partitionkeyrangeid": "2", "x-ms-max-item-count": "-1",
				"x-ms-read-key-type": "EffectivePartitionKeyRange", "x-ms-start-epk": "12", "x-ms-end-epk": "20"}},
		"narrower from the empty key": {FeedRequest{Range: wholeRange, Min: "", Max: "18"},
			map[string]string{"x-ms-documentdb-partitionkeyrangeid": "0", "x-ms-max-item-count": "-1",
				"x-ms-read-key-type": "EffectivePartitionKeyRange", "x-ms-end-epk": "18"}},
		"only a lower bound": {FeedRequest{Range: wholeRange, Min: "12"},
			map[string]string{"x-ms-documentdb-partitionkeyrangeid": "0", "x-ms-max-item-count": "-1",
				"x-ms-read-key-type": "EffectivePartitionKeyRange", "x-ms-start-epk": "12", "x-ms-end-epk": "FF"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, ok(emptyPage))
			if _, err := s.container().ReadFeed(t.Context(), test.request); err != nil {
				t.Fatal(err)
			}
			test.want["A-IM"] = "Incremental Feed"
			if diff := cmp.Diff(test.want, headersOf(s.requests[0].Header, feedHeaders)); diff != "" {
				t.Error(diff)
			}
			common := map[string]string{"x-ms-version": "2020-07-15", "x-ms-cosmos-sdk-supportedcapabilities": "3", "Accept": "application/json"}
			if diff := cmp.Diff(common, headersOf(s.requests[0].Header, []string{"x-ms-version", "x-ms-cosmos-sdk-supportedcapabilities", "Accept"})); diff != "" {
				t.Error(diff)
			}
			if agent := s.requests[0].UserAgent(); !strings.Contains(agent, "halley/v") {
				t.Errorf("user agent %q", agent)
			}
			if s.requests[0].Method != "GET" || s.requests[0].body != "" {
				t.Errorf("%s with %q", s.requests[0].Method, s.requests[0].body)
			}
		})
	}
}

func TestFeedRequestRejectsInvalidFields(t *testing.T) {
	for name, r := range map[string]FeedRequest{
		"no range":        {},
		"below the range": {Range: middleRange, Min: "0F", Max: "18"},
		"above the range": {Range: middleRange, Min: "12", Max: "21"},
		"empty":           {Range: middleRange, Min: "12", Max: "12"},
		"turned around":   {Range: middleRange, Min: "18", Max: "12"},
		"from the start":  {Range: middleRange, Max: "12"},
		"damaged etag":    {Range: wholeRange, Continuation: "\"1\"\r\nx-ms-version: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, ok(emptyPage))
			_, err := s.container().ReadFeed(t.Context(), r)
			if err == nil || len(s.requests) != 0 {
				t.Errorf("%d requests, %v", len(s.requests), err)
			}
		})
	}
}

func TestPage(t *testing.T) {
	head := []string{"Etag", `"42"`, "x-ms-session-token", "0:-1#45#3=40", "lsn", "46", "x-ms-request-charge", "2.35", "x-ms-activity-id", "act", "Date", vectorDate}
	moment, _ := http.ParseTime(vectorDate)
	want := Page{Continuation: `"42"`, SessionToken: "0:-1#45#3=40", Version: -1, SessionLSN: 45, LSN: 46, Charge: 2.35, Date: moment, ActivityID: "act"}

	s := newService(t, func() *http.Response { return reply(304, "", head...) }, ok(`{"Documents":[{"_lsn":41,"_ts":5}]}`, head...))
	c := s.container()
	page, err := c.ReadFeed(t.Context(), FeedRequest{Range: wholeRange})
	if err != nil {
		t.Fatal(err)
	}
	page.buffer, want.NotModified = nil, true
	if diff := cmp.Diff(want, *page, cmp.AllowUnexported(Page{}, buffer{})); diff != "" {
		t.Error(diff)
	}
	page.Release()

	if page, err = c.ReadFeed(t.Context(), FeedRequest{Range: wholeRange}); err != nil {
		t.Fatal(err)
	}
	if len(page.Items) != 1 || page.NotModified || page.Items[0].LSN != 41 || page.Items[0].Timestamp != 5 || page.Continuation != `"42"` {
		t.Errorf("%+v", page)
	}
	page.Release()
	page.Release()
	if page.Items != nil {
		t.Error("released items are still there")
	}
}

func TestSessionLSN(t *testing.T) {
	for token, want := range map[string]int64{
		"":                     0,
		"0:-1#12":              12,
		"0:1#12#3=11#4=9":      12,
		"0:12":                 12,
		"0:1#77,1:2#99":        77,
		"1:2#99, 0:1#77#1=5":   77,
		"9:5#3":                3, // a single token belongs to the range, whatever id it has
		"12":                   0,
		"0:x":                  0,
		"0:1#":                 0,
		"1:1#5,2:1#6":          0,
		"0:-1#999999999999999": 999999999999999,
	} {
		if _, got := sessionPosition(token, "0"); got != want {
			t.Errorf("%q: got %d, want %d", token, got, want)
		}
	}
}

func TestInvalidPageIsRejected(t *testing.T) {
	for name, test := range map[string]struct {
		answer any
		want   string
	}{
		"HTML":      {ok("<html>"), "not a page of documents: it is not JSON, at byte 0"},
		"half":      {ok(`{"Documents":[{"id":"secret-doc"},`), "truncated, at byte 34"},
		"no array":  {ok(`{"Documents":{}}`), "no Documents array"},
		"count":     {ok(`{"Documents":[{}],"_count":2}`), "_count is 2 but it has 1"},
		"empty":     {ok(""), "truncated, at byte 0"},
		"no etag":   {func() *http.Response { return reply(200, emptyPage) }, "no etag"},
		"304, none": {func() *http.Response { return reply(304, "") }, "no etag"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, test.answer)
			page, err := s.container().ReadFeed(t.Context(), FeedRequest{Range: wholeRange})
			if page != nil || err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "read feed dbs/Games/colls/High Scores range 0: ") {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if strings.Contains(fmt.Sprint(err), "secret-doc") {
				t.Errorf("error shows a document: %v", err)
			}
		})
	}
}

// A body without a Content-Length is read to its end; the gateway sends large
// bodies in this way.
func TestPageOfUnknownLength(t *testing.T) {
	body := string(feedPage(50, 5000))
	s := newService(t, func() *http.Response {
		r := reply(200, body, "Etag", `"1"`)
		r.ContentLength = -1
		return r
	})
	page, err := s.container().ReadFeed(t.Context(), FeedRequest{Range: wholeRange})
	if err != nil || len(page.Items) != 50 {
		t.Fatal(err)
	}
}

// A buffer is reused after Release, and not before.
func TestReleasedBufferIsReused(t *testing.T) {
	body := string(feedPage(10, 100))
	s := newService(t, ok(body))
	c := s.container()
	read := func() *Page {
		page, err := c.ReadFeed(context.Background(), FeedRequest{Range: wholeRange})
		if err != nil || len(page.Items) != 10 {
			t.Fatal(err)
		}
		return page
	}
	kept := read()
	want := string(kept.Items[3].Document)
	for range 5 {
		read().Release()
	}
	if got := string(kept.Items[3].Document); got != want {
		t.Errorf("a page that was not released changed to %s", got)
	}
}

// After ReleaseItems the bytes belong to the documents, and take no more room than the
// body, however its length was announced.
func TestDocumentsOutliveReleasedItems(t *testing.T) {
	for _, announced := range []bool{false, true} {
		body := string(feedPage(10, 100))
		s := newService(t)
		s.answer = func(int, *http.Request) (*http.Response, error) {
			answer := ok(body)()
			if !announced {
				answer.ContentLength = -1
			}
			return answer, nil
		}
		c := s.container()
		var kept []json.RawMessage
		for range 5 {
			page, err := c.ReadFeed(context.Background(), FeedRequest{Range: wholeRange})
			if err != nil || len(page.Items) != 10 {
				t.Fatal(err)
			}
			if room := cap(page.buffer.bytes); room > len(body)+len(body)/4 {
				t.Errorf("a body of %d bytes has room for %d", len(body), room)
			}
			kept = append(kept, page.Items[3].Document)
			page.ReleaseItems()
		}
		for i, document := range kept[1:] {
			if !json.Valid(document) || &document[0] == &kept[i][0] {
				t.Errorf("a page whose documents were handed on was used again: %s", document)
			}
		}
	}
}

func TestStart(t *testing.T) {
	moment := time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)
	for text, start := range map[string]Start{"beginning": {}, "now": StartNow, "2026-03-01T12:00:00Z": StartAt(moment)} {
		if start.String() != text {
			t.Errorf("%s is %q", text, start)
		}
		startTime, ok := start.Time()
		if ok != (start != Start{} && start != StartNow) || ok && !startTime.Equal(moment.Truncate(time.Second)) {
			t.Errorf("%s: time %v, %v", start, startTime, ok)
		}
	}
	if StartAt(moment) != StartAt(moment.In(time.FixedZone("CET", 3600))) {
		t.Error("equal times differ")
	}
	if StartAt(time.Unix(0, 0)) == (Start{}) {
		t.Error("1970 is not the beginning")
	}
}

// However many ranges read at a time, their requests need few connections, and other
// requests do not wait for them.
func TestFeedReadsUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var underWay, peak atomic.Int64
		s := &service{t: t, answer: func(_ int, req *http.Request) (*http.Response, error) {
			if req.Header.Get("A-IM") == "" {
				return reply(200, `{"id":"a"}`, "Etag", `"1"`), nil
			}
			peak.Store(max(peak.Load(), underWay.Add(1)))
			time.Sleep(time.Second)
			underWay.Add(-1)
			return reply(304, "", "Etag", `"1"`), nil
		}}
		c := s.container()
		began := time.Now()
		var reading sync.WaitGroup
		for range 3 * maxFeedReads {
			reading.Go(func() {
				if page, err := c.ReadFeed(t.Context(), FeedRequest{Range: wholeRange}); err != nil || !page.NotModified {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if _, err := c.Read(t.Context(), "a", NewPartitionKey("a")); err != nil || time.Since(began) != 0 {
			t.Errorf("document read after %v: %v", time.Since(began), err)
		}
		ended, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := c.ReadFeed(ended, FeedRequest{Range: wholeRange}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("read that waits for its turn: %v", err)
		}
		reading.Wait()
		if peak.Load() != maxFeedReads || time.Since(began) != 3*time.Second {
			t.Errorf("%d reads at a time, %v for all", peak.Load(), time.Since(began))
		}
	})
}

// An answer that is not admitted is not read, and not requested again.
func TestAnswerThatIsNotAdmittedIsDiscarded(t *testing.T) {
	body := string(feedPage(100, 1000))
	for name, length := range map[string]int64{"known length": int64(len(body)), "unknown length": -1} {
		t.Run(name, func(t *testing.T) {
			read := 0
			s := newService(t, func() *http.Response {
				resp := reply(200, body, "Etag", `"1"`)
				resp.ContentLength, resp.Body = length, io.NopCloser(io.TeeReader(resp.Body, countingWriter{&read}))
				return resp
			})
			c := s.container()
			limit := len(body) / 2
			request := FeedRequest{Range: wholeRange, Admit: func(bytes int) bool { return bytes <= limit }}
			if _, err := c.ReadFeed(t.Context(), request); !errors.Is(err, ErrNotAdmitted) {
				t.Errorf("error %v", err)
			}
			if read > limit || len(s.requests) != 1 {
				t.Errorf("%d of %d bytes read in %d requests", read, len(body), len(s.requests))
			}
			limit = 3 * len(body)
			page, err := c.ReadFeed(t.Context(), request)
			if err != nil || len(page.Items) != 100 || page.Size() < len(body) {
				t.Errorf("page %+v: %v", page, err)
			}
		})
	}
}

type countingWriter struct{ bytes *int }

func (w countingWriter) Write(p []byte) (int, error) {
	*w.bytes += len(p)
	return len(p), nil
}

// pageService answers each read with one page of the given length, -1 if it does not tell it.
func pageService(t *testing.T, body string, length int64) *service {
	return newService(t, func() *http.Response {
		resp := reply(200, body, "Etag", `"1"`)
		resp.ContentLength = length
		return resp
	})
}

// Ranges that have read large pages and are idle since keep no memory for them, beyond
// one bound for all.
func TestIdleBuffersAreBounded(t *testing.T) {
	body := string(feedPage(1000, 4000))
	for name, length := range map[string]int64{"known length": int64(len(body)), "unknown length": -1} {
		t.Run(name, func(t *testing.T) {
			client := pageService(t, body, length).client(nil)
			var pages []*Page
			for range 16 {
				page, err := client.Container("Games", "High Scores").ReadFeed(t.Context(), FeedRequest{Range: wholeRange})
				if err != nil {
					t.Fatal(err)
				}
				pages = append(pages, page)
			}
			for _, page := range pages {
				page.Release()
			}
			kept := 0
			for _, b := range client.buffers.free {
				kept += b.size()
			}
			for _, spare := range client.buffers.spares {
				kept += cap(spare)
			}
			if kept == 0 || kept > maxPooled || kept != client.buffers.freeBytes {
				t.Errorf("%d bytes kept of 16 pages of %d, %d counted", kept, len(body), client.buffers.freeBytes)
			}
		})
	}
}

// An idle range holds no buffer of a page that it has read before.
func TestNotModifiedTakesNoBuffer(t *testing.T) {
	s := newService(t, func() *http.Response { return reply(304, "", "Etag", `"1"`) })
	page, err := s.container().ReadFeed(t.Context(), FeedRequest{Range: wholeRange})
	if err != nil || !page.NotModified || page.buffer != nil {
		t.Errorf("page %+v: %v", page, err)
	}
}

// BenchmarkReadFeed measures one page from request to Release, without the
// network.
func BenchmarkReadFeed(b *testing.B) {
	body := feedPage(100, 1000)
	s := &service{t: b}
	answer := ok(string(body))
	s.answer = func(int, *http.Request) (*http.Response, error) {
		s.requests = s.requests[:0]
		return answer(), nil
	}
	c := s.container()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		page, err := c.ReadFeed(b.Context(), FeedRequest{Range: wholeRange})
		if err != nil || len(page.Items) != 100 {
			b.Fatal(err)
		}
		page.Release()
	}
}
