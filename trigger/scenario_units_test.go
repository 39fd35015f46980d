package trigger

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"halley/trigger/units"
)

// charges sums what the account charges for the requests of a host.
type charges struct {
	mu  sync.Mutex
	sum float64
}

func (c *charges) total() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sum
}

// chargeTransport adds the charge of each answer.
type chargeTransport struct {
	countingTransport
	charges *charges
}

func (t chargeTransport) Do(r *http.Request) (*http.Response, error) {
	resp, err := t.countingTransport.Do(r)
	if err == nil {
		charge, _ := strconv.ParseFloat(resp.Header.Get("X-Ms-Request-Charge"), 64)
		t.charges.mu.Lock()
		t.charges.sum += charge
		t.charges.mu.Unlock()
	}
	return resp, err
}

// What a function says that it costs in an hour, in its status and in its leases, is within ten
// percent of what the account charges in the next one; and the forecast for an idle function is
// within ten percent of its charges.
func TestUnitsAreThoseOfTheAccount(t *testing.T) {
	for _, load := range []struct {
		name  string
		every time.Duration // between writes; 0 is idle
		table units.Hourly  // in docs/operations.md
	}{
		{"idle", 0, units.Hourly{Polls: 2880, LeaseWrites: 13500, LeaseReads: 850}},
		{"a write each 7 s", 7 * time.Second, units.Hourly{Pages: 510, Polls: 7500, LeaseWrites: 18400, LeaseReads: 850}},
		{"a write each second", time.Second, units.Hourly{Pages: 3600, Polls: 29500, LeaseWrites: 67800, LeaseReads: 850}},
	} {
		t.Run(load.name, func(t *testing.T) {
			if load.every == time.Second {
				inLongForm(t)
			}
			inWorld(t, 4, func(t *testing.T, w *world) {
				w.writeMany("doc", 40)
				charged := &charges{}
				h := w.hostOn(chargeTransport{countingTransport{w}, charged}, "a", func(context.Context, Batch) error { return nil })
				stop := w.startHost(h)
				defer stop()
				run := func(d time.Duration) {
					if load.every == 0 {
						time.Sleep(d)
						return
					}
					for range d / load.every {
						time.Sleep(load.every)
						w.writeMany("doc", 1)
					}
				}
				run(65 * time.Minute)
				told := h.Status().Functions[0].Units
				lags, err := EstimateLag(t.Context(), w.leases, FeedSource{Name: "test", Container: w.items, StartFrom: FromBeginning()})
				must(t, err)
				written := lags[0].Units
				if len(lags) != 4 || written == nil || math.Abs(written.Total()/told.Total()-1) > 0.05 {
					t.Fatalf("the leases say %+v, the status %+v", written, told)
				}
				for _, kind := range [][2]float64{{told.Pages, load.table.Pages}, {told.Polls, load.table.Polls}, {told.LeaseWrites, load.table.LeaseWrites}, {told.LeaseReads, load.table.LeaseReads}} {
					if math.Abs(kind[0]-kind[1]) > 0.1*kind[1] {
						t.Errorf("%v; the table in docs/operations.md has %v", told, load.table)
					}
				}
				before := charged.total()
				run(30 * time.Minute)
				actual := 2 * (charged.total() - before)
				if math.Abs(told.Total()/actual-1) > 0.1 {
					t.Errorf("%+v, together %.0f request units an hour; the account charges %.0f", told, told.Total(), actual)
				}
				idle := units.Idle{Ranges: 4, Hosts: 1, PollDelay: 5 * time.Second, RenewInterval: 17 * time.Second, AcquireInterval: 13 * time.Second, LeaseWrite: written.LeaseWrite}.Hourly()
				if load.every == 0 && math.Abs(idle.Total()/actual-1) > 0.1 {
					t.Errorf("the forecast for an idle function is %+v, together %.0f request units an hour; the account charges %.0f", idle, idle.Total(), actual)
				}
			})
		})
	}
}
