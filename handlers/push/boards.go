package push

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"halley/handlers/game"
)

// overtaking is one due notification: the player By raised their best score to
// Score, above Best, the best score of Player.
type overtaking struct {
	Game   string  `json:"-"`
	Player string  `json:"player"`
	Best   float64 `json:"best,string"`
	By     string  `json:"by"`
	Score  float64 `json:"score,string"`
	At     int64   `json:"at,string"` // when the result was written, in seconds since 1970

	entry string // its text in Redis
}

// boards keeps, per game, the best scores and the due notifications. All keys of
// a game share a hash tag, so they are in one slot of a Redis Cluster:
//
//	push:{chess}:best            sorted set: player by best score
//	push:{chess}:due:ada         set of due notifications about scores of ada
//	push:{chess}:told:ada:<hash> set of the subscriptions that got one of them
type boards struct {
	redis  *redis.Client
	prefix string
	top    int
	keep   time.Duration // lifetime of a due notification
}

func (b *boards) key(name, kind string) string { return b.prefix + "{" + name + "}:" + kind }

func (b *boards) due(name, player string) string { return b.key(name, "due:"+player) }

func (b *boards) toldKey(o overtaking) string {
	return b.key(o.Game, "told:"+o.By+":"+digest(o.entry))
}

// digest returns a short name for parts: 32 characters of base64url.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))[:32]
}

//go:embed record.lua
var recordSource string

var recordScript = redis.NewScript(recordSource)

// record raises the board of a game to results, in their order, and returns the
// due notifications about scores of their players, oldest first. If a result is
// tooOld, it counts on the board, but causes no notification.
func (b *boards) record(ctx context.Context, name string, results []game.Result, tooOld func(seconds int64) bool) ([]overtaking, error) {
	keys := []string{b.key(name, "best")}
	args := []any{b.top, b.keep.Milliseconds()}
	for _, r := range results {
		keys = append(keys, b.due(name, r.Player))
		args = append(args, r.Player, FormatScore(r.Score), notifyTime(r, tooOld))
	}
	entries, err := recordScript.Run(ctx, b.redis, keys, args...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("record %d results of game %q in Redis: %w", len(results), name, err)
	}
	return parse(name, entries)
}

// notifyTime returns the script's time argument of a result, "" if the result
// must not cause a notification.
func notifyTime(r game.Result, tooOld func(seconds int64) bool) string {
	if tooOld(r.Timestamp) {
		return ""
	}
	if r.Timestamp == 0 {
		return strconv.FormatInt(time.Now().Unix(), 10)
	}
	return strconv.FormatInt(r.Timestamp, 10)
}

func parse(name string, entries []string) ([]overtaking, error) {
	due := make([]overtaking, len(entries))
	for i, entry := range entries {
		if err := json.Unmarshal([]byte(entry), &due[i]); err != nil {
			return nil, fmt.Errorf("decode a due notification of game %q: %w", name, err)
		}
		due[i].Game, due[i].entry = name, entry
	}
	slices.SortStableFunc(due, func(a, b overtaking) int { return cmp.Compare(a.At, b.At) })
	return due, nil
}

// notified returns the subscriptions that already got o.
func (b *boards) notified(ctx context.Context, o overtaking) (map[string]bool, error) {
	ids, err := b.redis.SMembers(ctx, b.toldKey(o)).Result()
	if err != nil {
		return nil, fmt.Errorf("read notified subscriptions from Redis: %w", err)
	}
	notified := make(map[string]bool, len(ids))
	for _, id := range ids {
		notified[id] = true
	}
	return notified, nil
}

// markNotified records that a subscription got o.
func (b *boards) markNotified(ctx context.Context, o overtaking, subscription string) error {
	_, err := b.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.SAdd(ctx, b.toldKey(o), subscription)
		p.PExpire(ctx, b.toldKey(o), b.keep)
		return nil
	})
	if err != nil {
		return fmt.Errorf("record a notified subscription in Redis: %w", err)
	}
	return nil
}

// removeDue removes o from the due notifications.
func (b *boards) removeDue(ctx context.Context, o overtaking) error {
	_, err := b.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.SRem(ctx, b.due(o.Game, o.By), o.entry)
		p.Del(ctx, b.toldKey(o))
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove a sent notification from Redis: %w", err)
	}
	return nil
}
