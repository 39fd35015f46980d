package emulator

import (
	"net/http"
	"strconv"
	"strings"
)

// readRanges answers GET …/pkranges. If the request has A-IM, it is a change feed of
// the ranges: those that appeared since the etag, or 304 if none did.
func (c *call) readRanges() (*response, error) {
	o, err := c.container()
	if err != nil {
		return nil, err
	}
	return c.locked(o, func() (*response, error) {
		since := -1
		if c.header.Get("A-Im") != "" {
			since = o.knownTopology(c.header.Get("If-None-Match"))
		}
		r := o.rangesSince(since)
		if c.header.Get("A-Im") != "" {
			r.etag(strconv.Quote(strconv.Itoa(o.Topology)))
		}
		o.name(r)
		return r, nil
	})
}

// knownTopology is the state of the ranges that a client has; -1 = none.
func (o *container) knownTopology(etag string) int {
	known, err := strconv.Atoi(strings.Trim(etag, `"`))
	if err != nil || known > o.Topology {
		return -1
	}
	return known
}

func (o *container) rangesSince(topology int) *response {
	if topology == o.Topology {
		return reply(http.StatusNotModified, nil)
	}
	bodies := [][]byte{}
	for _, p := range o.Partitions {
		if p.Born > topology {
			bodies = append(bodies, o.rangeBody(p, 1/float64(len(o.Partitions))))
		}
	}
	r := reply(http.StatusOK, envelope(o.rid, "PartitionKeyRanges", bodies)) // without a charge
	r.set("x-ms-item-count", strconv.Itoa(len(bodies)))
	return r
}
