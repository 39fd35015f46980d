package redis_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/handlers/once"
	"halley/handlers/redis"
	"halley/handlers/redis/redisurl"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// connect returns a client of the Redis of HALLEY_TEST_REDIS_URL, or of one in this process
// if that is not set, and a prefix for the keys of one test.
func connect(t testing.TB) (*goredis.Client, string) {
	t.Helper()
	url := os.Getenv("HALLEY_TEST_REDIS_URL")
	if url == "" {
		url = "redis://" + miniredis.RunT(t).Addr()
	}
	client, err := redisurl.Client(handlers.URL(url))
	if err != nil {
		t.Fatal(err)
	}
	prefix := fmt.Sprintf("halley-test:%d:", time.Now().UnixNano())
	t.Cleanup(func() {
		ctx := context.Background()
		keys, err := client.Keys(ctx, prefix+"*").Result()
		if err == nil && len(keys) > 0 {
			err = client.Del(ctx, keys...).Err()
		}
		if err := errors.Join(err, client.Close()); err != nil {
			t.Error(err)
		}
	})
	return client, prefix
}

// journal appends a line for each effect to a list of the document. It remembers the
// number of lines.
const journal = `
local function effect(memory, list, line)
	redis.call('RPUSH', list, line)
	return tostring((tonumber(memory) or 0) + 1), nil
end`

// sink is a list for each document.
type sink struct {
	t      testing.TB
	client *goredis.Client
	prefix string
	store  *redis.Store
}

func newSink(t testing.TB) *sink {
	t.Helper()
	client, prefix := connect(t)
	return &sink{t, client, prefix, redis.New(client, prefix+"position:", journal)}
}

func (s *sink) handle(ctx context.Context, b trigger.Batch) error {
	return s.store.Apply(ctx, b, func(c trigger.Change) ([]any, error) {
		d := struct{ N int }{-1} // of a delete
		if c.Document != nil {
			if err := c.Decode(&d); err != nil {
				return nil, trigger.Skip(err)
			}
		}
		return []any{s.prefix + "list:" + c.ID(), d.N}, nil
	})
}

// lines returns the effects by document.
func (s *sink) lines() map[string][]string {
	s.t.Helper()
	ctx := context.Background()
	keys, err := s.client.Keys(ctx, s.prefix+"list:*").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	lines := map[string][]string{}
	for _, key := range keys {
		if lines[strings.TrimPrefix(key, s.prefix)], err = s.client.LRange(ctx, key, 0, -1).Result(); err != nil {
			s.t.Fatal(err)
		}
	}
	return lines
}

func TestEffectsConverge(t *testing.T) {
	triggertest.Converges(t, triggertest.Scenario{
		Seeds:    handlerstest.Seeds(),
		Function: trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}},
		Document: func(random *rand.Rand, id, key string) any {
			return map[string]any{"id": id, "key": key, "n": random.IntN(1000)}
		},
		Open: func(t testing.TB, _ *triggertest.World) triggertest.Sink {
			s := newSink(t)
			return triggertest.Sink{
				Start: func() (trigger.Handler, func() error) { return s.handle, nil },
				State: func() any { return s.lines() },
			}
		},
	})
}

// The rule in Lua is the rule of package once: after random batches, both have let the
// same changes through.
func TestScriptKeepsTheRule(t *testing.T) {
	s := newSink(t)
	random := rand.New(rand.NewPCG(1, 1))
	stored, want := map[once.Document]once.Position{}, map[string][]string{}
	number := 0
	for range 300 {
		b := trigger.Batch{Epoch: random.Int64N(4)}
		for range 1 + random.IntN(8) {
			number++
			text := fmt.Sprintf(`{"id":"d%d","n":%d,"_etag":"e%d"}`, random.IntN(5), number, random.IntN(30))
			c := triggertest.Upsert(text, "k")
			c.LSN, c.Time = random.Int64N(12), time.Unix(random.Int64N(6), 0)
			b.Changes = append(b.Changes, c)
		}
		fresh, moved := once.Fresh(b, stored)
		for document, p := range moved {
			stored[document] = p
		}
		for _, c := range fresh {
			var d struct{ N int }
			if err := c.Decode(&d); err != nil {
				t.Fatal(err)
			}
			want["list:"+c.ID()] = append(want["list:"+c.ID()], fmt.Sprint(d.N))
		}
		if err := s.handle(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if random.IntN(10) == 0 { // begin again
			stored = map[once.Document]once.Position{}
			s.forget()
		}
	}
	if got := s.lines(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the script let through\n%v\nthe rule\n%v", got, want)
	}
	if lines := len(slices.Concat(want["list:d0"], want["list:d1"])); lines < 50 {
		t.Errorf("only %d effects on two documents: the test did not do its work", lines)
	}
}

// forget removes all positions.
func (s *sink) forget() {
	s.t.Helper()
	ctx := context.Background()
	keys, err := s.client.Keys(ctx, s.prefix+"position:*").Result()
	if err == nil && len(keys) > 0 {
		err = s.client.Del(ctx, keys...).Err()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestEffectRemembers(t *testing.T) {
	client, prefix := connect(t)
	store := redis.New(client, prefix+"position:", `
local function effect(memory, country, amount)
	local former, before = string.match(memory, '^(.*) (.*)$')
	if former then redis.call('INCRBY', former, -before) end
	redis.call('INCRBY', country, amount)
	return country .. ' ' .. amount, 60000
end`)
	handler := func(ctx context.Context, b trigger.Batch) error {
		return store.Apply(ctx, b, func(c trigger.Change) ([]any, error) {
			var d struct {
				Country string
				Amount  int
			}
			err := c.Decode(&d)
			return []any{prefix + cmp.Or(d.Country, "none"), d.Amount}, err
		})
	}
	for i, text := range []string{`{"id":"a","country":"de","amount":5}`, `{"id":"b","country":"de","amount":7}`, `{"id":"a","country":"fr","amount":6}`} {
		c := triggertest.Upsert(text, "k")
		c.LSN = int64(i + 1)
		for range 2 {
			if v := triggertest.Deliver(t, handler, c); len(v.Failed) > 0 {
				t.Fatal(v)
			}
		}
	}
	got, err := client.MGet(t.Context(), prefix+"de", prefix+"fr").Result()
	if err != nil || fmt.Sprint(got) != "[7 6]" {
		t.Errorf("totals are %v, %v", got, err)
	}
	positions, err := client.Keys(t.Context(), prefix+"position:*").Result()
	if err != nil || len(positions) != 2 {
		t.Fatal(positions, err)
	}
	if kept := client.PTTL(t.Context(), positions[0]).Val(); kept <= 0 || kept > time.Minute {
		t.Errorf("a position is kept for %s", kept)
	}
}

// A change without arguments fails alone. If a command fails, the changes before it have
// taken effect and are not repeated.
func TestFailures(t *testing.T) {
	s := newSink(t)
	change := func(id string) trigger.Change { return triggertest.Upsert(fmt.Sprintf(`{"id":%q,"n":1}`, id), "k") }
	v := triggertest.Deliver(t, s.handle, change("a"), triggertest.Upsert(`{"id":"b","n":"x"}`, "k"), change("c"))
	if fmt.Sprint(len(v.Handled), len(v.Failed), v.GivenUp) != "2 1 true" {
		t.Error(v)
	}
	if err := s.client.Set(t.Context(), s.prefix+"list:e", "not a list", 0).Err(); err != nil {
		t.Fatal(err)
	}
	batch := []trigger.Change{change("d"), change("e"), change("f")}
	if v := triggertest.Deliver(t, s.handle, batch...); len(v.Failed) != 3 || v.GivenUp || !strings.Contains(v.String(), "WRONGTYPE") {
		t.Error(v)
	}
	if err := s.client.Del(t.Context(), s.prefix+"list:e").Err(); err != nil {
		t.Fatal(err)
	}
	if v := triggertest.Deliver(t, s.handle, batch...); len(v.Failed) > 0 {
		t.Error(v)
	}
	if got := fmt.Sprint(s.lines()); got != "map[list:a:[1] list:c:[1] list:d:[1] list:e:[1] list:f:[1]]" {
		t.Errorf("effects are %s", got)
	}
}
