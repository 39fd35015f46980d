package exactlyonce

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

// document is an order. Most are written once, so that each is one change; one write in
// updateShare is the second version of an earlier document.
type document struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Country  string `json:"country"`
	Cents    int64  `json:"cents"`
	Version  int64  `json:"version"`
}

const (
	updateShare = 10
	customers   = 5000 // partition keys
	countries   = 20   // groups of the totals
	writers     = 4
)

// load writes documents, and knows the last version of each.
type load struct {
	t         *testing.T
	container *cosmos.Container
	changes   int // to write, over all writers
	rate      int // changes per second; 0 is as fast as possible

	mu        sync.Mutex
	documents map[string]document
}

// write writes all changes. Each writer has documents of its own.
func (l *load) write(ctx context.Context) {
	var writing sync.WaitGroup
	began := time.Now()
	for i := range writers {
		writing.Go(func() {
			random := rand.New(rand.NewPCG(*seed, uint64(i)))
			var own []document
			for n := i; n < l.changes && ctx.Err() == nil; n += writers {
				own = l.next(random, own, n)
				if err := l.put(ctx, own[len(own)-1]); err != nil {
					l.t.Errorf("write: %v", err)
					return
				}
				if l.rate > 0 {
					waitUntil(ctx, began.Add(time.Duration(n)*time.Second/time.Duration(l.rate)))
				}
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			for _, d := range own {
				l.documents[d.ID] = d
			}
		})
	}
	writing.Wait()
}

// next appends the version that the n-th write writes. The last element of own is always
// the newest version.
func (l *load) next(random *rand.Rand, own []document, n int) []document {
	d := document{ID: fmt.Sprint(n), Customer: fmt.Sprint("c", random.IntN(customers)), Version: 1}
	if len(own) > 0 && random.IntN(updateShare) == 0 {
		at := random.IntN(len(own))
		if own[at].Version == 1 {
			d = own[at]
			d.Version = 2
			own[at] = own[len(own)-1]
			own = own[:len(own)-1]
		}
	}
	d.Country, d.Cents = fmt.Sprint("country", random.IntN(countries)), random.Int64N(10_000)
	return append(own, d)
}

func (l *load) put(ctx context.Context, d document) error {
	_, err := l.container.Upsert(ctx, cosmos.NewPartitionKey(d.Customer), d)
	return err
}

// totals are the totals that the view must have, by country.
func (l *load) totals() map[string]total {
	totals := map[string]total{}
	for _, d := range l.documents {
		t := totals[d.Country]
		totals[d.Country] = total{t.Documents + 1, t.Cents + d.Cents}
	}
	return totals
}

// total is the totals of one country.
type total struct{ Documents, Cents int64 }

func waitUntil(ctx context.Context, moment time.Time) {
	select {
	case <-time.After(time.Until(moment)):
	case <-ctx.Done():
	}
}
