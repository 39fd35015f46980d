package emulator

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func benchmarkCreate(b *testing.B, c *client) {
	var n atomic.Int64
	payload := strings.Repeat("x", 200)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := fmt.Sprint("item", n.Add(1))
			resp, err := c.do(c.request("POST", items, fmt.Sprintf(`{"id":%q,"pk":%q,"player":"p","score":12.5,"text":%q}`, id, id, payload), with(pk(id), "Prefer", "return=minimal")))
			if err != nil || resp.StatusCode != http.StatusCreated {
				b.Errorf("create: %v, %v", resp, err)
				return
			}
			resp.Body.Close()
		}
	})
}

func BenchmarkFeed(b *testing.B) {
	c, _ := newItems(b, 1, nil)
	for i := range 20_000 {
		id := fmt.Sprint("item", i)
		c.expect("201", "POST", items, fmt.Sprintf(`{"id":%q,"pk":%q,"text":%q}`, id, id, strings.Repeat("x", 300)), pk(id)...)
	}
	b.ReportAllocs()
	token, documents := "", 0
	for b.Loop() {
		resp, err := c.do(c.request("GET", items, "", with(feedHeader, "If-None-Match", token, "x-ms-max-item-count", "100")))
		if err != nil {
			b.Fatal(err)
		}
		n, _ := io.Copy(io.Discard, resp.Body)
		b.SetBytes(n)
		resp.Body.Close()
		if token = resp.Header.Get("etag"); resp.StatusCode == http.StatusNotModified {
			token = ""
		}
		documents++
	}
}

func BenchmarkFeedNotModified(b *testing.B) {
	c, _ := newItems(b, 1, nil)
	b.ReportAllocs()
	for b.Loop() {
		resp, err := c.do(c.request("GET", items, "", with(feedHeader, "If-None-Match", "*")))
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
}
