package emulator

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestFaultSelects(t *testing.T) {
	c, a := newItems(t, 2, nil)
	c.create("a", "k")
	read := func() answer { return c.send("GET", items+"/a", "", pk("k")...) }
	feed := func() answer { return c.send("GET", items, "", with(feedHeader, rangeID("0")...)...) }
	for _, tt := range []struct {
		name  string
		fault Fault
		hits  func() answer
		spare func() answer
	}{
		{"method", Fault{Method: "get"}, read, func() answer { return c.send("DELETE", items+"/x", "", pk("k")...) }},
		{"resource", Fault{Resource: "docs"}, read, func() answer { return c.send("GET", "/dbs/db", "") }},
		{"path", Fault{Path: "/docs/a$"}, read, feed},
		{"header", Fault{Header: map[string]string{"a-im": "(?i)^incremental feed$"}}, feed, read},
		{"absent header", Fault{Header: map[string]string{"A-IM": "^$"}}, read, feed},
		{"range", Fault{Range: "0"}, feed, func() answer { return c.send("GET", items, "", with(feedHeader, rangeID("1")...)...) }},
		{"function", Fault{Match: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/a") }}, read, feed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.fault.Status, tt.fault.SubStatus, tt.fault.RetryAfter = 449, 42, 120*time.Millisecond
			remove := a.Inject(tt.fault)
			defer remove()
			hit := tt.hits()
			if hit.status != 449 || hit.header.Get("x-ms-substatus") != "42" || hit.header.Get("x-ms-retry-after-ms") != "120" {
				t.Errorf("the request that matches has %d, %v", hit.status, hit.header)
			}
			if spared := tt.spare(); spared.status == 449 {
				t.Error("the request that does not match was answered by the fault")
			}
			remove()
			if next := tt.hits(); next.status == 449 {
				t.Error("the fault acts after its removal")
			}
		})
	}
}

func TestFaultCounts(t *testing.T) {
	c, a := newItems(t, 1, nil)
	c.create("a", "k")
	statuses := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte("-X"[map[bool]int{c.send("GET", items+"/a", "", pk("k")...).status == 503: 1}[true]])
		}
		return b.String()
	}
	a.Inject(Fault{Status: 503, Nth: 3, Count: 2})
	if got := statuses(6); got != "--XX--" {
		t.Errorf("from the third, two: %s", got)
	}
	probable := func(seed uint64) string {
		defer a.Inject(Fault{Status: 503, Probability: 0.3, Seed: seed})()
		return statuses(200)
	}
	first := probable(1)
	if n := strings.Count(first, "X"); n < 35 || n > 85 {
		t.Errorf("with probability 0.3 a fault acted on %d of 200", n)
	}
	if probable(1) != first || probable(2) == first {
		t.Error("the choice does not follow from the seed")
	}
}

func TestFaultDrops(t *testing.T) {
	c, a := newItems(t, 1, nil)
	served := httptest.NewServer(a)
	defer served.Close()
	outside := &client{t: t, do: served.Client().Do, endpoint: served.URL}
	for _, sender := range []*client{c, outside} {
		for drop, applied := range map[Drop]string{DropBefore: "404", DropAfter: "204"} {
			a.Inject(Fault{Method: "POST", Drop: drop, Count: 1})
			if got, err := sender.try("POST", items, doc("x", "k"), pk("k")...); err == nil {
				t.Errorf("drop %s: answered %d", drop, got.status)
			} else if sender == c && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("drop %s in process: %v", drop, err)
			}
			sender.expect(applied, "DELETE", items+"/x", "", pk("k")...)
		}
	}
}

func TestFaultTruncates(t *testing.T) {
	c, a := newItems(t, 1, nil)
	c.create("a", "k")
	served := httptest.NewServer(a)
	defer served.Close()
	outside := &client{t: t, do: served.Client().Do, endpoint: served.URL}
	for _, sender := range []*client{c, outside} {
		for keep, want := range map[int]int{10: 10, 1 << 20: len(c.expect("200", "GET", items+"/a", "", pk("k")...).body) / 2} {
			a.Inject(Fault{Truncate: keep, Count: 1})
			got, err := sender.try("GET", items+"/a", "", pk("k")...)
			if !errors.Is(err, io.ErrUnexpectedEOF) || len(got.body) != want {
				t.Errorf("truncated to %d: %d bytes, %v; want %d", keep, len(got.body), err, want)
			}
		}
	}
}

func TestDelayAndLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a := newItems(t, 1, &Options{Latency: 20 * time.Millisecond})
		a.Inject(Fault{Delay: time.Minute, Method: "POST"})
		start := time.Now()
		c.create("a", "k")
		if took := time.Since(start); took != time.Minute+20*time.Millisecond {
			t.Errorf("a delayed request took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		_, err := a.Do(c.request("POST", items, doc("b", "k"), pk("k")).WithContext(ctx))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("a caller that gave up got %v after %v", err, time.Since(start))
		}
		c.expect("404", "GET", items+"/b", "", pk("k")...)
	})
}

func TestFaultOnInvalidRequest(t *testing.T) {
	c, a := newItems(t, 1, nil)
	a.Inject(Fault{Status: 503})
	c.expect("503", "POST", items, strings.Repeat("x", 2*maxBody), pk("k")...)
	c.expect("503", "GET", "/nowhere", "")
}

func TestFaultCheck(t *testing.T) {
	for _, tt := range []struct {
		fault Fault
		names string
	}{
		{Fault{}, "nothing"},
		{Fault{Status: 99}, "status"},
		{Fault{Status: 500, Path: "("}, "path"},
		{Fault{Status: 500, Header: map[string]string{"a": "("}}, "header a"},
		{Fault{Drop: "later"}, "drop"},
		{Fault{Status: 500, Probability: 2}, "probability"},
		{Fault{Status: 500, Count: -1}, "negative"},
	} {
		if err := tt.fault.Check(); err == nil || !strings.Contains(err.Error(), tt.names) {
			t.Errorf("%+v: %v, want an error that names %q", tt.fault, err, tt.names)
		}
	}
}

func TestFaultJSON(t *testing.T) {
	text := `{"method":"PUT","resource":"docs","path":"x","header":{"a":"b"},"range":"1","nth":2,"count":3,"probability":0.5,"seed":7,` +
		`"status":429,"substatus":3200,"message":"m","drop":"after","truncate":9,"retryAfter":"150ms","delay":"2s"}`
	var f Fault
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(f); err != nil || string(got) != text {
		t.Errorf("%s\nbecame %s, %v", text, got, err)
	}
	for _, bad := range []string{`{"statuss":1}`, `{"delay":5}`, `{"delay":"soon"}`} {
		if json.Unmarshal([]byte(bad), &f) == nil {
			t.Errorf("%s was read", bad)
		}
	}
}
