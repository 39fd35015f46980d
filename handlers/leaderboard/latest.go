package leaderboard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"halley/handlers/game"
	"halley/trigger"
)

// The latest result of a player is not a maximum: written out of turn it would
// be wrong, and a host that was paused and lost its range may write out of
// turn. So each entry remembers who wrote it, as the epoch of the range and the
// position in it, and refuses a writer that comes from before: a fencing token,
// as in Martin Kleppmann, "How to do distributed locking" (2016). Epochs rise
// with each acquisition of a range and go on in the ranges that it splits into,
// so they can be compared for one player for ever.
//
// KEYS[1] is the hash, ARGV is field, epoch, position, score, and so on.
var setLatest = redis.NewScript(`
local refused = 0
for i = 1, #ARGV, 4 do
	local stored = redis.call('HGET', KEYS[1], ARGV[i])
	local epoch, position
	if stored then
		epoch, position = string.match(stored, '^(%d+) (%d+) ')
		epoch, position = tonumber(epoch), tonumber(position)
	end
	local e, p = tonumber(ARGV[i+1]), tonumber(ARGV[i+2])
	if stored and (e < epoch or e == epoch and p < position) then
		refused = refused + 1
	else
		redis.call('HSET', KEYS[1], ARGV[i], ARGV[i+1] .. ' ' .. ARGV[i+2] .. ' ' .. ARGV[i+3])
	end
end
return refused`)

// latestKey is the hash of latest results. Names hold no control characters,
// so no board has this key.
func (b *Boards) latestKey() string { return b.prefix + "\x00latest" }

func latestField(name, player string) string { return name + "\x00" + player }

// recordLatest keeps the last result of each player and game in the batch,
// unless a later owner of the range has written there.
func (b *Boards) recordLatest(ctx context.Context, batch trigger.Batch, results []game.Result) error {
	last := map[string]int{}
	for i, r := range results {
		last[latestField(r.Game, r.Player)] = i
	}
	var args []any
	for i, r := range results {
		if field := latestField(r.Game, r.Player); last[field] == i {
			args = append(args, field, batch.Epoch, batch.Changes[i].LSN, strconv.FormatFloat(r.Score, 'g', -1, 64))
		}
	}
	if err := setLatest.Run(ctx, b.redis, []string{b.latestKey()}, args...).Err(); err != nil {
		return fmt.Errorf("record latest results in Redis: %w", err)
	}
	return nil
}

// Latest reads the score of the last result of a player; false when there is
// none.
func (b *Boards) Latest(ctx context.Context, name, player string) (score float64, ok bool, err error) {
	entry, err := b.redis.HGet(ctx, b.latestKey(), latestField(name, player)).Result()
	if errors.Is(err, redis.Nil) {
		return 0, false, nil
	}
	if err == nil {
		score, err = strconv.ParseFloat(entry[strings.LastIndexByte(entry, ' ')+1:], 64)
	}
	if err != nil {
		return 0, false, fmt.Errorf("read latest result of %q in game %q from Redis: %w", player, name, err)
	}
	return score, true, nil
}
