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

// setLatest writes latest results unless newer ones are stored. Unlike a maximum,
// the latest result is wrong if an older one overwrites it: host A pauses and
// loses its range, host B writes newer results, and when A continues, it writes
// its older ones. So each entry has a fencing token, the epoch of the range and
// the position in it, and a write with a smaller token is refused; see Martin
// Kleppmann, "How to do distributed locking" (2016). Epochs rise with each
// acquisition of a range, and its children continue them after a split, so the
// tokens of one player can always be compared.
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

// latestKey returns the key of the hash of latest results. Names have no control
// characters, so this is not the key of a board.
func (b *Boards) latestKey() string { return b.prefix + "\x00latest" }

func latestField(name, player string) string { return name + "\x00" + player }

// recordLatest writes the last result of each player and game in a batch. If a
// later owner of the range has already written one, it stays.
func (b *Boards) recordLatest(ctx context.Context, epoch int64, changes []trigger.Change, results []game.Result) error {
	last := map[string]int{}
	for i, r := range results {
		last[latestField(r.Game, r.Player)] = i
	}
	var args []any
	for i, r := range results {
		if field := latestField(r.Game, r.Player); last[field] == i {
			args = append(args, field, epoch, changes[i].LSN, strconv.FormatFloat(r.Score, 'g', -1, 64))
		}
	}
	if err := setLatest.Run(ctx, b.redis, []string{b.latestKey()}, args...).Err(); err != nil {
		return fmt.Errorf("record latest results in Redis: %w", err)
	}
	return nil
}

// Latest reads the score of a player's last result. ok is false if there is none.
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
