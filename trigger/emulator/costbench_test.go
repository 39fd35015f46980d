package emulator

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// The goals of these benchmarks on two quiet cores: 8,000 creates/s in memory and 4,000
// with data by 8 connections, 150,000 documents/s of the feed, two stored sizes + 200
// bytes of memory for a document, and 3 s to open an account of 500,000 documents.

// serveBench is a client of an account behind a socket.
func serveBench(b *testing.B, ranges, connections int, opts *Options) *client {
	b.Helper()
	c, a := newItems(b, ranges, opts)
	ctx, stop := context.WithCancel(b.Context())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- a.Serve(ctx, ServeOptions{Addr: "127.0.0.1:0", Ready: func(endpoint string) { ready <- endpoint }})
	}()
	transport := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}
	b.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	c.do, c.endpoint = (&http.Client{Transport: transport}).Do, strings.TrimSuffix(<-ready, "/")
	return c
}

const connections = 8

func benchmarkConnections(b *testing.B, c *client) {
	payload := strings.Repeat("x", 90)
	b.ReportAllocs()
	var n atomic.Int64
	var writers sync.WaitGroup
	b.ResetTimer()
	for range connections {
		writers.Go(func() {
			for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
				id := fmt.Sprint("item", i)
				resp, err := c.do(c.request("POST", items, fmt.Sprintf(`{"id":%q,"pk":%q,"text":%q}`, id, id, payload), with(pk(id), "Prefer", "return=minimal")))
				if err != nil || resp.StatusCode != http.StatusCreated {
					b.Errorf("create: %v, %v", resp, err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	writers.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
}

func BenchmarkConnectionsCreateInMemory(b *testing.B) {
	benchmarkConnections(b, serveBench(b, 4, connections, nil))
}

func BenchmarkConnectionsCreateOnDisk(b *testing.B) {
	benchmarkConnections(b, serveBench(b, 4, connections, &Options{Data: b.TempDir()}))
}

// BenchmarkConnectionsFloor sends the same requests to a server that answers each at once:
// what net/http takes of a create on both sides.
func BenchmarkConnectionsFloor(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}
	defer transport.CloseIdleConnections()
	c := serveBench(b, 1, 1, nil)
	c.do, c.endpoint = (&http.Client{Transport: transport}).Do, server.URL
	benchmarkConnections(b, c)
}

// BenchmarkConnectionsSync writes a page to a file and syncs it: a commit of the data
// directory does that twice, and the creates of all connections share a commit.
func BenchmarkConnectionsSync(b *testing.B) {
	file, err := os.Create(filepath.Join(b.TempDir(), "synced"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	page := make([]byte, os.Getpagesize())
	for b.Loop() {
		if _, err := file.WriteAt(page, 0); err != nil {
			b.Fatal(err)
		}
		if err := file.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)*1000, "ms/sync")
}

// fill creates documents of about size bytes in batches.
func fill(b *testing.B, c *client, count, size int) {
	b.Helper()
	payload := strings.Repeat("x", size)
	for i := 0; i < count; i += maxOperations {
		key := fmt.Sprint("key", i/maxOperations)
		var operations []string
		for j := range min(maxOperations, count-i) {
			operations = append(operations, fmt.Sprintf(`{"operationType":"Create","resourceBody":{"id":"item%d","pk":%q,"text":%q}}`, i+j, key, payload))
		}
		c.expect("200", "POST", items, "["+strings.Join(operations, ",")+"]", with(pk(key), "x-ms-cosmos-is-batch-request", "true", "Prefer", "return=minimal")...)
	}
}

func BenchmarkConnectionFeed(b *testing.B) {
	const documents = 20_000
	c := serveBench(b, 1, 1, nil)
	fill(b, c, documents, 800)
	b.ReportAllocs()
	read := 0
	for b.Loop() {
		for token := ""; ; {
			resp, err := c.do(c.request("GET", items, "", with(feedHeader, "If-None-Match", token, "x-ms-max-item-count", "-1")))
			if err != nil {
				b.Fatal(err)
			}
			n, _ := io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			b.SetBytes(n)
			if token = resp.Header.Get("etag"); resp.StatusCode == http.StatusNotModified {
				break
			}
		}
		read += documents
	}
	b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "documents/s")
}

// BenchmarkMemory has one document for each partition key, the costliest case.
func BenchmarkMemory(b *testing.B) {
	for _, size := range []int{1, 90, 1000} {
		b.Run(fmt.Sprint("text of ", size), func(b *testing.B) {
			const documents = 20_000
			var perDocument, stored float64
			for b.Loop() {
				c, a := newItems(b, 1, nil)
				oldBytes := liveBytes()
				bytes := 0
				for i := range documents {
					id := fmt.Sprint("item", i)
					answer := c.expect("201", "POST", items, fmt.Sprintf(`{"id":%q,"pk":%q,"text":%q}`, id, id, strings.Repeat("x", size)), pk(id)...)
					bytes += len(answer.body)
				}
				perDocument, stored = (liveBytes()-oldBytes)/documents, float64(bytes)/documents
				runtime.KeepAlive(a)
			}
			b.ReportMetric(perDocument, "B/document")
			b.ReportMetric(stored, "stored-B/document")
		})
	}
}

func liveBytes() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func BenchmarkOpen500kDocuments(b *testing.B) {
	opts := &Options{Data: b.TempDir()}
	c, a := newItems(b, 4, opts)
	fill(b, c, 500_000, 90)
	for b.Loop() {
		_, a = reopen(b, a, opts)
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/open")
}
