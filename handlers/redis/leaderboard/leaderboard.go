// Package leaderboard keeps the best score of every player and game in Redis,
// and the latest.
//
// The board of a game is one sorted set, whose members are the players and
// whose scores are their best results. It is written with ZADD GT
// (https://redis.io/docs/latest/commands/zadd/), which adds a player or raises
// a score, but never lowers one: if results arrive twice, late or in another
// order, the board is the same. Boards are never trimmed; a board holds every
// player of its game. The latest scores are fenced: see latest.go.
//
// A delete and an expiry change nothing, soft deletes included: a best score stays, and so
// does the latest.
package leaderboard

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"halley/handlers"
	"halley/handlers/game"
	"halley/handlers/redis/redisurl"
	"halley/trigger"
)

// Settings of the handler, read with the prefix HALLEY_LEADERBOARD_.
type Settings struct {
	RedisURL  handlers.URL `split_words:"true" desc:"Redis that holds the boards, redis:// or rediss:// (TLS); required"`
	KeyPrefix string       `split_words:"true" default:"leaderboard:" desc:"begins the Redis key of every board; the game's name follows"`
	Result    game.Paths   `default:"game=/game, player=/player, score=/score" desc:"properties of a result, such as game=/title, player=/user/name, score=/points; those that are left out stay as they are"`
}

// Open returns the handler. It does not connect, so Redis may start later.
func Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	client, err := redisurl.Client(s.RedisURL)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %sREDIS_URL %w", env.Prefix, err)
	}
	env.OfferProbe(redisurl.Probe(env.Prefix, client))
	board := New(client, s.KeyPrefix)
	board.paths, board.meter = s.Result, env.Meter("redis")
	redisurl.Measure(client, board.meter)
	return board.Handler(), client.Close, nil
}

// Boards are the leaderboards of all games. They are safe for concurrent use.
type Boards struct {
	redis  *redis.Client
	prefix string
	paths  game.Paths // of the results in documents
	meter  *handlers.Meter
}

// New returns the boards whose keys begin with prefix, of documents that are results. The caller closes client
// when the boards are no longer used.
func New(client *redis.Client, prefix string) *Boards {
	return &Boards{redis: client, prefix: prefix, paths: game.DefaultPaths()}
}

// Handler records every result of a batch, and the last one of each player. If a
// document is not a result, the batch fails before any result is recorded, with
// an error that names the document and the field.
func (b *Boards) Handler() trigger.Handler {
	return func(ctx context.Context, batch trigger.Batch) error {
		results, changes, err := b.paths.Results(batch)
		if err != nil || len(results) == 0 {
			return err
		}
		if err := b.Record(ctx, results); err != nil {
			return err
		}
		if err := b.recordLatest(ctx, batch.Epoch, changes, results); err != nil {
			return err
		}
		b.meter.Wrote(len(results))
		return nil
	}
}

// Record raises the boards to results, in one round trip. If it fails, some of
// the results may be recorded; to record them again is harmless.
func (b *Boards) Record(ctx context.Context, results []game.Result) error {
	_, err := b.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for name, best := range bestOf(results) {
			p.ZAddArgs(ctx, b.prefix+name, redis.ZAddArgs{GT: true, Members: best})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("record %d results in Redis: %w", len(results), err)
	}
	return nil
}

// bestOf reduces results to one score per player, by game.
func bestOf(results []game.Result) map[string][]redis.Z {
	type seat struct{ game, player string }
	seats := make(map[seat]int, len(results)) // index of a player in the game's slice
	best := make(map[string][]redis.Z)
	for _, r := range results {
		i, ok := seats[seat{r.Game, r.Player}]
		if !ok {
			seats[seat{r.Game, r.Player}] = len(best[r.Game])
			best[r.Game] = append(best[r.Game], redis.Z{Score: r.Score, Member: r.Player})
			continue
		}
		best[r.Game][i].Score = max(best[r.Game][i].Score, r.Score)
	}
	return best
}

// Standing is one line of a board.
type Standing struct {
	Player string
	Score  float64
}

// Top reads the n best players of a game, best first. If players have equal
// scores, they are in descending byte order of their names, as Redis sorts them;
// Redis does not know which player reached the score first. The result is empty
// if the game has no results or if n is below 1.
func (b *Boards) Top(ctx context.Context, name string, n int) ([]Standing, error) {
	if n < 1 {
		return nil, nil
	}
	members, err := b.redis.ZRevRangeWithScores(ctx, b.prefix+name, 0, int64(n)-1).Result()
	if err != nil {
		return nil, fmt.Errorf("read top %d of game %q from Redis: %w", n, name, err)
	}
	top := make([]Standing, len(members))
	for i, m := range members {
		top[i].Player, _ = m.Member.(string)
		top[i].Score = m.Score
	}
	return top, nil
}
