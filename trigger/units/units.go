// Package units counts the request units that a function costs on a host, by kind of
// request, and forecasts those of a month.
package units

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Kind is the kind of a request that costs units.
type Kind int

// The kinds of requests of a function.
const (
	Pages       Kind = iota // reads of the feed that brought changes, or failed
	Polls                   // reads of the feed that found nothing new
	LeaseWrites             // checkpoints, renewals, acquisitions, and the documents that create leases
	LeaseReads              // lists of the leases, and reads of single ones
	kinds
)

// Hourly is request units an hour by kind.
type Hourly struct {
	Pages       float64 `json:"pages"`
	Polls       float64 `json:"polls"`
	LeaseWrites float64 `json:"leaseWrites"`
	LeaseReads  float64 `json:"leaseReads"`
}

// Total returns the sum over all kinds.
func (h Hourly) Total() float64 { return h.Pages + h.Polls + h.LeaseWrites + h.LeaseReads }

// String returns the units in words.
func (h Hourly) String() string {
	return fmt.Sprintf("%.0f request units an hour: %.0f for pages, %.0f for empty polls, %.0f for lease writes, %.0f for lists and reads of leases", h.Total(), h.Pages, h.Polls, h.LeaseWrites, h.LeaseReads)
}

// Add returns the sum of two.
func (h Hourly) Add(o Hourly) Hourly {
	return Hourly{h.Pages + o.Pages, h.Polls + o.Polls, h.LeaseWrites + o.LeaseWrites, h.LeaseReads + o.LeaseReads}
}

// Host is the measurement of a host, as its leases tell other machines.
type Host struct {
	ID     string `json:"host"` // of the process
	Hourly        // over the last hour, or since the host began
	// LeaseWrite is the charge of one lease write, the mean of all, 0 before the first.
	LeaseWrite float64 `json:"leaseWrite"`
}

// String returns the text that [ParseHost] reads, "" if nothing was measured.
func (h Host) String() string {
	if h.Hourly == (Hourly{}) {
		return ""
	}
	return fmt.Sprintf("%s %.0f %.0f %.0f %.0f %.2f", h.ID, h.Pages, h.Polls, h.LeaseWrites, h.LeaseReads, h.LeaseWrite)
}

// ParseHost reads the text of a [Host]. It reports false if the text is not one.
func ParseHost(text string) (h Host, ok bool) {
	fields := strings.Fields(text)
	values := []*float64{&h.Pages, &h.Polls, &h.LeaseWrites, &h.LeaseReads, &h.LeaseWrite}
	if len(fields) != 1+len(values) {
		return Host{}, false
	}
	h.ID = fields[0]
	for i, v := range values {
		var err error
		if *v, err = strconv.ParseFloat(fields[1+i], 64); err != nil || !isCharge(*v/maxRequests) {
			return Host{}, false
		}
	}
	return h, true
}

// largestCharge is more request units than a request can cost, and maxRequests more requests
// than a host sends in an hour.
const (
	largestCharge = 1e6
	maxRequests   = 1e9
)

// isCharge reports whether a request may have cost that; NaN is no charge.
func isCharge(units float64) bool { return units >= 0 && units <= largestCharge }

// slots are the minutes over which a Meter remembers.
const slots = 60

// Meter counts the units of one function on one host. It is safe for concurrent use, and a nil
// Meter counts nothing.
//
// mu guards the fields below it, and no other lock is taken under it.
type Meter struct {
	mu          sync.Mutex
	began       time.Time // of the first count
	minute      int64     // of the newest slot, since 1970
	counted     [slots][kinds]float64
	leaseWrites int // of all times, with their units
	leaseUnits  float64
}

// Add counts a request that has ended now. A charge that cannot be counts as 0.
func (m *Meter) Add(kind Kind, charge float64) {
	if m == nil || !isCharge(charge) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.began.IsZero() {
		m.began = now
	}
	m.advance(now)
	m.counted[m.minute%slots][kind] += charge
	if kind == LeaseWrites {
		m.leaseWrites++
		m.leaseUnits += charge
	}
}

// advance empties the slots of minutes that have passed. mu is held.
func (m *Meter) advance(now time.Time) {
	minute := now.Unix() / 60
	if m.minute == 0 || minute-m.minute >= slots {
		clear(m.counted[:])
		m.minute = minute
	}
	for ; m.minute < minute; m.minute++ {
		m.counted[(m.minute+1)%slots] = [kinds]float64{}
	}
}

// youngProcess is the age up to which a process tells its plain count. If it only runs for some seconds
// each hour, the count scaled to an hour would be far too high.
const youngProcess = 10 * time.Minute

// Measured returns the units of the last hour, or of the time since the first count as if it were an
// hour, and the mean charge of a lease write.
func (m *Meter) Measured() (hourly Hourly, leaseWrite float64) {
	if m == nil {
		return Hourly{}, 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.began.IsZero() {
		return Hourly{}, 0
	}
	now := time.Now()
	m.advance(now)
	inSlots := (slots-1)*time.Minute + time.Duration(now.Unix()%60)*time.Second
	scale, lasted := 1.0, min(now.Sub(m.began), inSlots)
	if lasted >= youngProcess {
		scale = float64(time.Hour) / float64(lasted)
	}
	var sum [kinds]float64
	for _, slot := range m.counted {
		for kind, charge := range slot {
			sum[kind] += charge * scale
		}
	}
	if m.leaseWrites > 0 {
		leaseWrite = m.leaseUnits / float64(m.leaseWrites)
	}
	return Hourly{sum[Pages], sum[Polls], sum[LeaseWrites], sum[LeaseReads]}, leaseWrite
}
