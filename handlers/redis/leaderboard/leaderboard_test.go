package leaderboard

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"halley/handlers"
	"halley/handlers/game"
	"halley/handlers/redis/redisurl"
	"halley/trigger"
)

// eachRedis runs a test on an embedded Redis and on the real one at
// HALLEY_TEST_REDIS_URL. Keys begin with a prefix of their own.
func eachRedis(t *testing.T, test func(t *testing.T, b *Boards)) {
	t.Run("embedded", func(t *testing.T) {
		test(t, boards(t, handlers.URL("redis://"+miniredis.RunT(t).Addr())))
	})
	t.Run("real", func(t *testing.T) {
		url := os.Getenv("HALLEY_TEST_REDIS_URL")
		if url == "" {
			t.Skip("HALLEY_TEST_REDIS_URL is not set: no real Redis to test with")
		}
		test(t, boards(t, handlers.URL(url)))
	})
}

func boards(t testing.TB, url handlers.URL) *Boards {
	t.Helper()
	client, err := redisurl.Client(url)
	if err != nil {
		t.Fatal(err)
	}
	prefix := fmt.Sprintf("halley-test:%d:%s:", os.Getpid(), t.Name())
	t.Cleanup(func() {
		clear(t, client, prefix)
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(client, prefix)
}

func clear(t testing.TB, client *redis.Client, prefix string) {
	ctx := context.Background()
	keys := client.Scan(ctx, 0, prefix+"*", 0).Iterator()
	for keys.Next(ctx) {
		client.Del(ctx, keys.Val())
	}
	if err := keys.Err(); err != nil {
		t.Error(err)
	}
}

func batch(documents ...string) trigger.Batch {
	b := trigger.Batch{Function: "leaderboard", Attempt: 1}
	for i, d := range documents {
		b.Changes = append(b.Changes, trigger.Change{Document: json.RawMessage(d), LSN: int64(i + 10)})
	}
	return b
}

func document(id, name, player string, score float64) string {
	return fmt.Sprintf(`{"id":%q,"game":%q,"player":%q,"score":%v}`, id, name, player, score)
}

func top(t testing.TB, b *Boards, name string, n int) string {
	t.Helper()
	standings, err := b.Top(t.Context(), name, n)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, s := range standings {
		lines = append(lines, fmt.Sprintf("%s %v", s.Player, s.Score))
	}
	return strings.Join(lines, ", ")
}

func TestBestScorePerPlayerAndGame(t *testing.T) {
	eachRedis(t, func(t *testing.T, b *Boards) {
		handle := b.Handler()
		batches := []trigger.Batch{
			batch(document("1", "chess", "ada", 100), document("2", "go", "ada", -5.25), document("3", "chess", "bob", 90)),
			batch(document("4", "chess", "bob", 120), document("5", "chess", "bob", 110), document("6", "chess", "cid", 1e15)),
			batch(document("7", "chess", "cid", 3), document("8", "go", "ada", -7)),
		}
		for _, one := range batches {
			if err := handle(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
		tests := []struct {
			game string
			n    int
			want string
		}{
			{"chess", 10, "cid 1e+15, bob 120, ada 100"},
			{"chess", 2, "cid 1e+15, bob 120"},
			{"chess", 0, ""},
			{"chess", -1, ""},
			{"go", 3, "ada -5.25"},
			{"unplayed", 3, ""},
		}
		for _, tt := range tests {
			if got := top(t, b, tt.game, tt.n); got != tt.want {
				t.Errorf("top %d of %s is %q, want %q", tt.n, tt.game, got, tt.want)
			}
		}
	})
}

func TestTiesAreInDescendingOrderOfNames(t *testing.T) {
	eachRedis(t, func(t *testing.T, b *Boards) {
		for _, player := range []string{"bob", "Zoe", "ada", "émile"} {
			if err := b.Record(t.Context(), []game.Result{{ID: "1", Game: "chess", Player: player, Score: 7}}); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := top(t, b, "chess", 10), "émile 7, bob 7, ada 7, Zoe 7"; got != want {
			t.Errorf("ties stand as %q, want %q", got, want)
		}
	})
}

// The board is the same after redelivery from any earlier point, with old results
// and in any order.
func TestBoardDoesNotDependOnOrder(t *testing.T) {
	eachRedis(t, func(t *testing.T, b *Boards) {
		random := rand.New(rand.NewPCG(1, 2))
		var batches []trigger.Batch
		best := map[string]float64{}
		for i := range 40 {
			var documents []string
			for j := range 1 + random.IntN(5) {
				player, score := fmt.Sprintf("p%d", random.IntN(8)), float64(random.IntN(1000))
				documents = append(documents, document(fmt.Sprintf("%d-%d", i, j), "chess", player, score))
				best[player] = max(best[player], score)
			}
			batches = append(batches, batch(documents...))
		}
		handle := b.Handler()
		for range 3 {
			for _, i := range random.Perm(len(batches)) {
				if err := handle(t.Context(), batches[i]); err != nil {
					t.Fatal(err)
				}
			}
		}
		got := map[string]float64{}
		standings, err := b.Top(t.Context(), "chess", 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range standings {
			got[s.Player] = s.Score
		}
		if d := cmp.Diff(best, got); d != "" {
			t.Error(d)
		}
	})
}

func TestPoisonFailsBatchBeforeRecording(t *testing.T) {
	eachRedis(t, func(t *testing.T, b *Boards) {
		poison := []struct{ document, want string }{
			{`{"id":"x","game":"chess","score":1}`, `decode document at lsn 11: result "x": field "player" is missing or empty`},
			{`{"id":"x","game":"chess","player":"ada","score":1e400}`, `decode document at lsn 11: result "x": field "score" is a number 1e400, not a float64 in range`},
			{`{"id":"x","game":"chess","player":"ada"`, `decode document at lsn 11: unexpected end of JSON input`},
		}
		for _, p := range poison {
			err := b.Handler()(t.Context(), batch(document("1", "chess", "ada", 5), p.document))
			if err == nil || !strings.Contains(err.Error(), p.want) {
				t.Errorf("error is %v, want %s", err, p.want)
			}
			if got := top(t, b, "chess", 10); got != "" {
				t.Errorf("board is %q", got)
			}
		}
	})
}

func TestRedisFailure(t *testing.T) {
	server := miniredis.RunT(t)
	b := boards(t, handlers.URL("redis://"+server.Addr()+"?max_retries=-1"))
	results := []game.Result{{ID: "1", Game: "chess", Player: "ada", Score: 5}}

	server.SetError("LOADING Redis is loading the dataset in memory")
	if err := b.Record(t.Context(), results); err == nil || !strings.Contains(err.Error(), "record 1 results in Redis: LOADING") {
		t.Errorf("error is %v", err)
	}
	if _, err := b.Top(t.Context(), "chess", 3); err == nil || !strings.Contains(err.Error(), `read top 3 of game "chess" from Redis: LOADING`) {
		t.Errorf("error is %v", err)
	}

	server.SetError("")
	if err := b.Record(t.Context(), results); err != nil {
		t.Fatal(err)
	}
	if got := top(t, b, "chess", 3); got != "ada 5" {
		t.Errorf("board is %q", got)
	}
}

func TestCancelledContextEndsTheCall(t *testing.T) {
	b := boards(t, handlers.URL("redis://"+miniredis.RunT(t).Addr()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Handler()(ctx, batch(document("1", "chess", "ada", 5))); err == nil {
		t.Error("no error")
	}
}

func TestOpenChecksSettings(t *testing.T) {
	env := handlers.Env{Prefix: "HALLEY_LEADERBOARD_"}
	_, _, err := Open(t.Context(), env, Settings{RedisURL: "tcp://cache"})
	if err == nil || !strings.HasPrefix(err.Error(), "setting HALLEY_LEADERBOARD_REDIS_URL is not a Redis URL (tcp://cache") {
		t.Errorf("error is %v", err)
	}

	server := miniredis.RunT(t)
	handle, closer, err := Open(t.Context(), env, Settings{RedisURL: handlers.URL("redis://" + server.Addr()), KeyPrefix: "lb/", Result: game.DefaultPaths()})
	if err != nil {
		t.Fatal(err)
	}
	if err := handle(t.Context(), batch(document("1", "chess", "ada", 5))); err != nil {
		t.Fatal(err)
	}
	if score, err := server.ZScore("lb/chess", "ada"); err != nil || score != 5 {
		t.Errorf("score in Redis is %v, %v", score, err)
	}
	if err := closer(); err != nil {
		t.Error(err)
	}
}
