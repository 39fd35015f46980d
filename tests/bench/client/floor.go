package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	"halley/tests/bench/report"
)

// floorClient does with net/http alone as little as the protocol admits. It sends no
// signature, so it can only read the prebuilt feed.
type floorClient struct {
	http   *http.Client
	url    string // of the feed
	lease  string // URL of a lease
	page   string
	header http.Header // of each read
}

// protocolHeader is the rest of what the service requires of a read, or Halley sends with it, with values
// that never change: the feed of the benchmark does not look at them.
var protocolHeader = http.Header{
	"Accept":                                {"application/json"},
	"Authorization":                         {"type%3Dmaster%26ver%3D1.0%26sig%3DgFB1bRB%2FPLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc%3D"},
	"User-Agent":                            {"azsdk-go-halley/v0.1.0 (go1.26.8; linux)"},
	"X-Ms-Cosmos-Sdk-Supportedcapabilities": {"3"},
	"X-Ms-Date":                             {"Thu, 27 Apr 2017 00:51:12 GMT"},
	"X-Ms-Session-Token":                    {"0:-1#1000000001"},
	"X-Ms-Version":                          {"2020-07-15"},
}

func newFloorClient(s settings) *floorClient {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2, transport.DisableCompression = false, true
	return &floorClient{&http.Client{Transport: transport}, s.Endpoint + "dbs/bench/colls/items/docs", s.Endpoint + "dbs/bench/colls/leases/docs/lease", strconv.Itoa(s.Page), nil}
}

// read reads one page and discards it.
func (c *floorClient) read(ctx context.Context, id int, etag string) (next string, status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return "", 0, err
	}
	maps.Copy(request.Header, c.header)
	request.Header["A-Im"] = []string{"Incremental Feed"}
	request.Header["X-Ms-Max-Item-Count"] = []string{c.page}
	request.Header["X-Ms-Documentdb-Partitionkeyrangeid"] = []string{strconv.Itoa(id)}
	if etag != "" {
		request.Header["If-None-Match"] = []string{etag}
	}
	response, err := c.http.Do(request)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.Header.Get("Etag"), response.StatusCode, err
}

// floorRead reads all ranges, one after the other, and discards them.
func floorRead(ctx context.Context, s settings) (figures, error) {
	c := newFloorClient(s)
	if _, _, err := c.read(ctx, 0, "*"); err != nil { // opens the connection
		return nil, err
	}
	m, pages := startMeter(), 0
	for id := range s.Ranges {
		etag, status, err := "", http.StatusOK, error(nil)
		for status != http.StatusNotModified {
			if etag, status, err = c.read(ctx, id, etag); err != nil || status != http.StatusOK && status != http.StatusNotModified {
				return nil, fmt.Errorf("read range %d: status %d, %w", id, status, err)
			}
			pages++
		}
		pages--
	}
	return m.stop(pages * s.Page), nil
}

// floorIdle polls ranges that have no changes, and renews their leases: in each period it reads all
// of them, and writes the leases whose turn it is, one after the other over one connection.
func floorIdle(ctx context.Context, s settings) (figures, error) {
	c := newFloorClient(s)
	etags := make([]string, s.Ranges)
	for id := range etags {
		etags[id] = "*"
	}
	periods := time.NewTicker(s.Poll)
	defer periods.Stop()
	var shares report.Samples
	renewed, renewals := 0, 0.0 // leases so far, and how many should be
	for period := range s.Windows + 1 {
		m := startMeter()
		for id := range etags {
			var err error
			if etags[id], _, err = c.read(ctx, id, etags[id]); err != nil {
				return nil, err
			}
		}
		for renewals += float64(s.Ranges) * s.Poll.Seconds() / s.Renew.Seconds(); renewed < int(renewals); renewed++ {
			if err := c.write(ctx, renewed); err != nil {
				return nil, err
			}
		}
		<-periods.C
		found := m.stop(0)
		if period > 0 { // the first one opens the connection
			shares = append(shares, 100*found["cpuSeconds"]/found["seconds"])
		}
	}
	return figures{"cpuPercent": shares.Median(), "rssMiB": residentMiB("VmRSS")}, nil
}

// barePoll is floorPoll with as few headers as the server of the benchmark needs.
func barePoll(ctx context.Context, s settings) (figures, error) {
	return newFloorClient(s).poll(ctx, s)
}

// floorPoll sends the requests of a poll that finds nothing, again and again, over one connection.
func floorPoll(ctx context.Context, s settings) (figures, error) {
	c := newFloorClient(s)
	c.header = protocolHeader
	return c.poll(ctx, s)
}

func (c *floorClient) poll(ctx context.Context, s settings) (figures, error) {
	etag, _, err := c.read(ctx, 0, "*") // the first one opens the connection
	if err != nil {
		return nil, err
	}
	m := startMeter()
	for range s.Changes {
		var status int
		if etag, status, err = c.read(ctx, 0, etag); err != nil {
			return nil, err
		}
		if status != http.StatusNotModified {
			return nil, errChanges
		}
	}
	return m.stop(s.Changes), nil
}

// leaseDocument is about as long as a lease.
const leaseDocument = `{"id":"bench.localhost_AAAAAA==_AAAAAAAAAAA=..0","version":0,"LeaseToken":"0","FeedRange":{"Range":{"min":"","max":"FF"}},` +
	`"Owner":"bench-AAAAAAAA","ContinuationToken":"\"%d\"","properties":{"halley.epoch":"1","halley.incarnation":"bench-AAAAAAAA/AAAAAAAAAAAAA"},` +
	`"timestamp":"2026-01-01T00:00:00.0000000Z","Mode":"Incremental Feed"}`

// floorCheckpoint puts documents of the size of a lease. The account refuses them for
// want of a signature: the client's part of the exchange is that of a write.
func floorCheckpoint(ctx context.Context, s settings) (figures, error) {
	c := newFloorClient(s)
	m := startMeter()
	for i := range s.Changes {
		if err := c.write(ctx, i); err != nil {
			return nil, err
		}
	}
	return m.stop(s.Changes), nil
}

// write puts a document of the size of a lease.
func (c *floorClient) write(ctx context.Context, position int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, c.lease, bytes.NewReader(fmt.Appendf(nil, leaseDocument, position)))
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
