package exactlyonce

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// life is the clients of a container: they create, replace, delete and create again. Each
// writer has documents of its own, so that their versions are known.
type life struct {
	t         *testing.T
	container *cosmos.Container
	documents [writers]map[string]document // that exist, as the clients know
	deleted   [writers]map[string]document // the last version before the delete
	next      int
}

func newLife(t *testing.T, container *cosmos.Container) *life {
	l := &life{t: t, container: container}
	for i := range writers {
		l.documents[i], l.deleted[i] = map[string]document{}, map[string]document{}
	}
	return l
}

// Of a hundred changes, these are not creations.
const (
	replaces  = 35
	deletes   = 15
	recreates = 10
)

// write makes changes at the rate of the run, or as fast as possible if it is 0.
func (l *life) write(ctx context.Context, count, rate int) {
	var writing sync.WaitGroup
	began, first := time.Now(), l.next
	l.next += count
	for i := range writers {
		writing.Go(func() {
			random := rand.New(rand.NewPCG(*seed, uint64(first+i)))
			for n := i; n < count && ctx.Err() == nil; n += writers {
				if err := l.change(ctx, random, i, first+n); err != nil {
					l.t.Errorf("write: %v", err)
					return
				}
				if rate > 0 {
					waitUntil(ctx, began.Add(time.Duration(n)*time.Second/time.Duration(rate)))
				}
			}
		})
	}
	writing.Wait()
}

func (l *life) change(ctx context.Context, random *rand.Rand, writer, n int) error {
	living, dead := l.documents[writer], l.deleted[writer]
	kind := random.IntN(100)
	d := document{ID: fmt.Sprint(n), Customer: fmt.Sprint("c", random.IntN(customers))}
	switch {
	case kind < replaces && len(living) > 0:
		d = anyOf(living)
	case kind < replaces+deletes && len(living) > 0:
		return l.remove(ctx, anyOf(living), living, dead)
	case kind < replaces+deletes+recreates && len(dead) > 0:
		d = anyOf(dead)
	}
	d.Version, d.Country, d.Cents = d.Version+1, fmt.Sprint("country", random.IntN(countries)), random.Int64N(10_000)
	if _, err := l.container.Upsert(ctx, cosmos.NewPartitionKey(d.Customer), d); err != nil {
		return err
	}
	delete(dead, d.ID)
	living[d.ID] = d
	return nil
}

// remove deletes a document, which may have aged out already.
func (l *life) remove(ctx context.Context, d document, living, dead map[string]document) error {
	if _, err := l.container.Delete(ctx, d.ID, cosmos.NewPartitionKey(d.Customer), ""); err != nil && !cosmos.IsDocumentNotFound(err) {
		return err
	}
	delete(living, d.ID)
	dead[d.ID] = d
	return nil
}

// anyOf returns a document. It depends on the order of the map, not on the seed: what the
// hosts do depends on their timing anyway.
func anyOf(documents map[string]document) document {
	for _, d := range documents {
		return d
	}
	return document{}
}

// living returns the last versions of the documents that exist, as the clients know.
func (l *life) living() map[string]document {
	all := map[string]document{}
	for i := range writers {
		maps.Copy(all, l.documents[i])
	}
	return all
}

// awaitCaughtUp waits until the hosts have nothing left to deliver, or ctx ends.
func awaitCaughtUp(ctx context.Context, t *testing.T, client *cosmos.Client, source trigger.FeedSource) {
	t.Helper()
	for ctx.Err() == nil {
		lags, err := trigger.EstimateLag(ctx, client.Container(database, leases), source)
		behind := len(lags) == 0
		for _, lag := range lags {
			behind = behind || !lag.Known || lag.Changes > 0
		}
		if err == nil && !behind {
			return
		}
		waitUntil(ctx, time.Now().Add(200*time.Millisecond))
	}
	t.Error("the hosts have not caught up")
}
