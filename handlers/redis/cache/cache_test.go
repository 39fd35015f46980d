package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/handlers/handlerstest/parallel"
	"halley/handlers/redis/redisurl"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// Most tests wait for a Redis. They run at once, so each gives its handler settings that the
// environment does not have.
func TestMain(m *testing.M) {
	parallel.AtOnce(8)
	os.Exit(m.Run())
}

// redisOf is the Redis of a test: that of HALLEY_TEST_REDIS_URL, or one in this process if
// that is not set. Keys begin with a prefix of the test.
type redisOf struct {
	t      testing.TB
	url    string
	client *redis.Client
	prefix string
}

// newRedis returns a Redis for a cache of its own.
func newRedis(t testing.TB) *redisOf {
	t.Helper()
	url := os.Getenv("HALLEY_TEST_REDIS_URL")
	if url == "" {
		url = "redis://" + miniredis.RunT(t).Addr()
	}
	client, err := redisurl.Client(handlers.URL(url))
	if err != nil {
		t.Fatal(err)
	}
	r := &redisOf{t, url, client, fmt.Sprintf("halley-test:%d:", rand.Uint64())}
	t.Cleanup(func() {
		ctx := context.Background()
		keys, err := client.Keys(ctx, r.prefix+"*").Result()
		if err == nil && len(keys) > 0 {
			err = client.Del(ctx, keys...).Err()
		}
		if err := errors.Join(err, client.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// entry returns a cache in the Redis, with changes of its settings.
func (r *redisOf) entry(changes ...func(*Settings)) handlers.Entry {
	inRedis := func(s *Settings) {
		s.RedisURL, s.Key, s.PositionPrefix = handlers.URL(r.url), r.prefix+"doc:{key}:{id}", r.prefix+"position:"
		s.Properties = []string{"/id", "/price", "/name"}
	}
	return handlerstest.Entry("cache", Open, append([]func(*Settings){inRedis}, changes...)...)
}

// content is the cache without positions.
func (r *redisOf) content() map[string]string {
	r.t.Helper()
	ctx := context.Background()
	keys, err := r.client.Keys(ctx, r.prefix+"doc:*").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	content := map[string]string{}
	for _, key := range keys {
		if content[strings.TrimPrefix(key, r.prefix)], err = r.client.Get(ctx, key).Result(); err != nil {
			r.t.Fatal(err)
		}
	}
	return content
}

func (r *redisOf) require(want map[string]string) {
	r.t.Helper()
	if got := r.content(); !maps.Equal(got, want) {
		r.t.Errorf("the cache is %v, want %v", got, want)
	}
}

type product struct {
	ID    string `json:"id"`
	Key   string `json:"key"`
	Name  string `json:"name"`
	Price int    `json:"price"`
}

// The cache is the same whatever happens on the way, and it is right. In one case the key
// is made of a property that changes.
// wired returns a URL of the same Redis through a wire of the world, which is cut. The client
// does not repeat commands: with its repetitions no call would fail.
func wired(t testing.TB, w *triggertest.World, redis string) handlers.URL {
	t.Helper()
	parsed, err := url.Parse(redis)
	if err != nil {
		t.Fatal(err)
	}
	parsed.Host = w.Wire(parsed.Host)
	parsed.RawQuery = "max_retries=-1"
	return handlers.URL(parsed.String())
}

func TestCacheConverges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		function trigger.Function
		key      string
	}{
		"soft deletes":   {trigger.Function{SoftDeleteProperty: "deleted"}, "{key}:{id}"},
		"all versions":   {trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}}, "{key}:{id}"},
		"lanes":          {trigger.Function{SoftDeleteProperty: "deleted", BatchPolicy: trigger.BatchPolicy{Lanes: 3}}, "{key}:{id}"},
		"keys that move": {trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}}, "{/name}:{id}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			triggertest.Converges(t, triggertest.Scenario{
				Seeds:    handlerstest.Seeds(),
				Function: test.function,
				Document: func(random *rand.Rand, id, key string) any {
					return product{id, key, fmt.Sprint("name", random.IntN(3)), random.IntN(100)}
				},
				Open: func(t testing.TB, w *triggertest.World) triggertest.Sink {
					r := newRedis(t)
					url := wired(t, w, r.url)
					entry := r.entry(func(s *Settings) { s.RedisURL, s.Key = url, r.prefix+"doc:"+test.key })
					return triggertest.Sink{
						Start: func() (trigger.Handler, func() error) { return handlerstest.Start(t, entry, handlers.Env{}) },
						State: func() any { return r.content() },
					}
				},
				Want: func(documents []json.RawMessage) any {
					want := map[string]string{}
					for _, text := range documents {
						var p product
						if err := json.Unmarshal(text, &p); err != nil {
							t.Fatal(err)
						}
						key := strings.NewReplacer("{key}", p.Key, "{id}", p.ID, "{/name}", p.Name).Replace(test.key)
						want["doc:"+key] = fmt.Sprintf(`{"id":%q,"price":%d,"name":%q}`, p.ID, p.Price, p.Name)
					}
					return want
				},
			})
		})
	}
}

func changeAt(lsn int64, text string) trigger.Change {
	c := triggertest.Upsert(text, "k", 1)
	c.LSN = lsn
	return c
}

func deliver(t *testing.T, handler trigger.Handler, changes ...trigger.Change) {
	t.Helper()
	if v := triggertest.Deliver(t, handler, changes...); len(v.Failed) > 0 {
		t.Fatal(v)
	}
}

// Deletes of each kind remove the key, and a late older version does not bring it back.
func TestDeletesRemoveKeys(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	handler := handlerstest.Under(t, r.entry(), handlers.Env{})
	for i, gone := range []trigger.Change{
		triggertest.SoftDelete(`{"id":"0","deleted":true}`, "k", 1), triggertest.Delete("1", "k", 1), triggertest.Expire("2", "k", 1),
	} {
		gone.LSN = 9
		written := changeAt(8, fmt.Sprintf(`{"id":"%d","price":1}`, i))
		deliver(t, handler, written)
		r.require(map[string]string{fmt.Sprint("doc:k/1:", i): fmt.Sprintf(`{"id":"%d","price":1}`, i)})
		deliver(t, handler, gone)
		deliver(t, handler, written)
		r.require(map[string]string{})
	}
	for _, key := range r.client.Keys(t.Context(), r.prefix+"position:*").Val() {
		if kept := r.client.PTTL(t.Context(), key).Val(); kept <= 23*time.Hour || kept > 24*time.Hour {
			t.Errorf("a tombstone is kept for %s", kept)
		}
	}
}

func TestWholeDocumentsWithTimeToLive(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	wholeForAnHour := func(s *Settings) { s.Properties, s.TTL = nil, handlers.Interval(time.Hour) }
	handler := handlerstest.Under(t, r.entry(wholeForAnHour), handlers.Env{})
	deliver(t, handler, changeAt(1, `{"id":"a","list":[1, {}]}`))
	r.require(map[string]string{"doc:k/1:a": `{"id":"a","list":[1, {}]}`})
	if left := r.client.PTTL(t.Context(), r.prefix+"doc:k/1:a").Val(); left <= 59*time.Minute || left > time.Hour {
		t.Errorf("the key expires after %s", left)
	}
	for _, key := range r.client.Keys(t.Context(), r.prefix+"position:*").Val() {
		if kept := r.client.PTTL(t.Context(), key).Val(); kept <= 24*time.Hour || kept > 25*time.Hour {
			t.Errorf("the position is kept for %s", kept)
		}
	}
}

// A document without its key's property is given up; the others of its batch are cached.
func TestDocumentWithoutKeyIsGivenUp(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	handler := handlerstest.Under(t, r.entry(func(s *Settings) { s.Key = r.prefix + "doc:{/category}:{id}" }), handlers.Env{})
	v := triggertest.Deliver(t, handler, changeAt(1, `{"id":"a"}`), changeAt(2, `{"id":"b","category":7}`), changeAt(3, `{"id":"c","category":{}}`))
	if len(v.Handled) != 1 || !v.GivenUp || !strings.Contains(v.String(), `document "a": it has no text, number, true or false at /category`) {
		t.Error(v)
	}
	r.require(map[string]string{"doc:7:b": `{"id":"b"}`})
	gone := triggertest.Delete("b", "k", 1) // without its version before
	gone.LSN = 4
	deliver(t, handler, gone)
	r.require(map[string]string{})
}

func TestBadSettingsAreRefused(t *testing.T) {
	good := Settings{RedisURL: "redis://127.0.0.1:1", Key: "doc:{id}", TombstoneTTL: handlers.Interval(time.Hour), PositionPrefix: "p:"}
	for name, test := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"no URL":             {func(s *Settings) { s.RedisURL = "" }, "setting HALLEY_CACHE_REDIS_URL is empty; set it to"},
		"no key":             {func(s *Settings) { s.Key = "" }, "setting HALLEY_CACHE_KEY: it has no property: write"},
		"constant key":       {func(s *Settings) { s.Key = "doc" }, "it has no property: write"},
		"open brace":         {func(s *Settings) { s.Key = "doc:{id" }, "has a { without a }"},
		"closing brace":      {func(s *Settings) { s.Key = "doc:id}{id}" }, "has a } without a {"},
		"closing at the end": {func(s *Settings) { s.Key = "{id}}" }, "has a } without a {"},
		"no path":            {func(s *Settings) { s.Key = "doc:{category}" }, `{category}: "category" is not a path: write /name`},
		"properties":         {func(s *Settings) { s.Properties = []string{"name"} }, `setting HALLEY_CACHE_PROPERTIES: "name" is not a path`},
		"two names":          {func(s *Settings) { s.Properties = []string{"/a/name", "/name"} }, `two properties are named "name"`},
		"negative TTL":       {func(s *Settings) { s.TTL = -1 }, "setting HALLEY_CACHE_TTL is"},
		"no tombstones":      {func(s *Settings) { s.TombstoneTTL = 0 }, "setting HALLEY_CACHE_TOMBSTONE_TTL is 0s: write a minute at least"},
		"no prefix":          {func(s *Settings) { s.PositionPrefix = "" }, "setting HALLEY_CACHE_POSITION_PREFIX is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			test.change(&s)
			_, _, err := Open(t.Context(), handlers.Env{Prefix: "HALLEY_CACHE_"}, s)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}

func TestUnreachableRedisIsRetried(t *testing.T) {
	t.Parallel()
	unreachable := handlerstest.Entry("cache", Open, func(s *Settings) { s.RedisURL, s.Key = "redis://me:hunter2@127.0.0.1:1?max_retries=-1", "{id}" })
	var probe handlers.Probe
	handler := handlerstest.Under(t, unreachable, handlers.Env{Probe: func(p handlers.Probe) { probe = p }})
	v := triggertest.Deliver(t, handler, changeAt(1, `{"id":"a"}`))
	err := probe.Try(t.Context())
	if len(v.Failed) != 1 || v.GivenUp || err == nil || strings.Contains(fmt.Sprint(v, err), "hunter2") {
		t.Errorf("verdict is %s, probe %v", v, err)
	}
}

// A script that Redis does not have yet is sent again with its text.
func TestRequestsAreMeasured(t *testing.T) {
	t.Parallel()
	without := handlers.URL("redis://" + miniredis.RunT(t).Addr())
	var sinks handlerstest.Sinks
	handle := handlerstest.Under(t, newRedis(t).entry(func(s *Settings) { s.RedisURL = without }), handlers.Env{Measure: sinks.Measure})
	for id := range 2 {
		if v := triggertest.Deliver(t, handle, triggertest.Upsert(fmt.Sprintf(`{"id":"%d"}`, id), "k")); len(v.Failed) > 0 {
			t.Fatal(v)
		}
	}
	if total := sinks.Of("redis"); total.Rows != 2 || total.Retries != 1 || total.OK < 3 || total.Errors > 0 {
		t.Errorf("measured %+v", total)
	}
}
