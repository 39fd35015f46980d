package tests

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"halley/tests/history"
)

// board reads the boards that the leaderboard handler has written in Redis: the
// one at HALLEY_TEST_REDIS_URL, or one in this process if that is not set.
type board struct {
	url, prefix string
	client      *redis.Client
}

func newBoard(t *testing.T) *board {
	t.Helper()
	b := &board{
		url:    os.Getenv("HALLEY_TEST_REDIS_URL"),
		prefix: fmt.Sprintf("%s-%d:", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano()),
	}
	if b.url == "" {
		b.url = "redis://" + miniredis.RunT(t).Addr()
	}
	options, err := redis.ParseURL(b.url)
	if err != nil {
		t.Fatalf("HALLEY_TEST_REDIS_URL: %v", err)
	}
	b.client = redis.NewClient(options)
	t.Cleanup(func() {
		defer b.client.Close()
		if keys := b.keys(t); len(keys) > 0 {
			b.client.Del(context.Background(), keys...)
		}
	})
	return b
}

// settings returns settings that run only the leaderboard on the account. The
// intervals are short enough for a takeover within a test.
func (b *board) settings(a *account) map[string]string {
	return map[string]string{
		"CosmosDB":                         a.connectionString(),
		"HALLEY_FUNCTIONS":                 "leaderboard",
		"HALLEY_DATABASE_NAME":             database,
		"HALLEY_CONTAINER_NAME":            results,
		"HALLEY_LEASE_CONTAINER_NAME":      leases,
		"HALLEY_START_FROM":                "beginning",
		"HALLEY_FEED_POLL_DELAY":           "100ms",
		"HALLEY_LEASE_ACQUIRE_INTERVAL":    "500ms",
		"HALLEY_LEASE_RENEW_INTERVAL":      "700ms",
		"HALLEY_LEASE_EXPIRATION_INTERVAL": "2500ms",
		"HALLEY_LEADERBOARD_REDIS_URL":     b.url,
		"HALLEY_LEADERBOARD_KEY_PREFIX":    b.prefix,
	}
}

// smallBatches returns the same settings with five changes per batch, so that
// there are many handler calls.
func (b *board) smallBatches(a *account) map[string]string {
	settings := b.settings(a)
	settings["HALLEY_MAX_ITEMS_PER_INVOCATION"] = "5"
	return settings
}

// missing counts the changes of the record without a board. Every change is
// another game, so none hides another.
func (b *board) missing(t *testing.T, r *record) int {
	t.Helper()
	var scores []*redis.FloatCmd
	events := r.events(t)
	_, err := b.client.Pipelined(context.Background(), func(p redis.Pipeliner) error {
		for _, e := range events {
			scores = append(scores, p.ZScore(context.Background(), fmt.Sprintf("%sgame-%d", b.prefix, e.Seq), e.Key))
		}
		return nil
	})
	if err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	missing := 0
	for i, e := range events {
		if e.Kind == history.Write && scores[i].Val() != float64(e.Seq) {
			missing++
		}
	}
	return missing
}

// games counts the boards, which grow as changes are handled.
func (b *board) games(t *testing.T) int { return len(b.keys(t)) }

func (b *board) keys(t *testing.T) []string {
	t.Helper()
	keys, err := b.client.Keys(context.Background(), b.prefix+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// complete waits until every change is on its board.
func (b *board) complete(t *testing.T, r *record) {
	t.Helper()
	eventually(t, "every change is on its board", func() bool { return b.missing(t, r) == 0 })
}

// distinct returns a load in which no result replaces another.
func (a *account) distinct(r *record) load {
	l := a.load(r)
	l.rewrite = false
	return l
}
