// Package redis makes effects in Redis happen exactly once: the effect of a change, as a
// function in Lua, and the position of its document are written in one script. The rule,
// and why it holds, is in package [halley/handlers/once].
//
//	store := redis.New(client, "halley:totals:", `
//	local function effect(memory, country, amount)
//	  local former, before = string.match(memory, '^(.*) (.*)$')
//	  if former then redis.call('INCRBY', 'total:' .. former, -before) end
//	  redis.call('INCRBY', 'total:' .. country, amount)
//	  return country .. ' ' .. amount
//	end`)
//
// The function gets a memory: what it returned for the version of the document before, or
// "" for the first. So a total can take back what a document has added to it.
//
// A script is all or nothing as long as its commands succeed. If a command of an effect
// fails, for example because a key has another type, the commands before it stay: those
// of earlier changes with their positions, so that they are not repeated, and those of
// this effect without. An effect that can fail does so in its first command.
//
// The position of a document is a hash of about 150 bytes, also for a document that was
// deleted, and stays as long as the effect says: see [New]. Redis is as durable as it is
// configured; after a failover that lost writes, it has lost positions and effects alike,
// and changes that were checkpointed meanwhile are not delivered again.
//
// All keys of an effect must be on the server of its position: Redis Cluster needs a hash
// tag in the prefix and in each key. Epochs, LSNs and times are numbers of Lua, exact up to
// 2^53.
package redis

import (
	"context"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"halley/handlers"
	"halley/handlers/once"
	"halley/trigger"
)

//go:embed once.lua
var ruleSource string

// Store is the positions of one function. It is safe for concurrent use.
type Store struct {
	// Meter counts the changes whose effects were written, if it is not nil. It is set before
	// the first call of Apply; see [redisurl.Measure] for the requests.
	Meter *handlers.Meter

	client *redis.Client
	prefix string
	script *redis.Script
}

// New returns the store with positions in keys that begin with prefix; functions that
// share a Redis differ in it. effect is the text of a function in Lua:
//
//	local function effect(memory, ...) … return memory, keep end
//
// The arguments after memory are those that Apply is given. keep is for how many
// milliseconds the position is kept, or nil for ever. It must be longer than a change can
// be delivered late. The caller closes client when the store is no longer used.
func New(client *redis.Client, prefix, effect string) *Store {
	return &Store{client: client, prefix: prefix, script: redis.NewScript(effect + "\n" + ruleSource)}
}

// Apply makes the effects of a batch happen exactly once, in one round trip. arguments
// returns those of the effect of a change; if it returns an error, that change fails with
// it, and the others are handled. Apply's error is the handler's verdict on the batch.
func (s *Store) Apply(ctx context.Context, b trigger.Batch, arguments func(c trigger.Change) ([]any, error)) error {
	var keys []string
	var values []any
	var failures []error
	for _, c := range b.Changes {
		given, err := arguments(c)
		if err != nil {
			failures = append(failures, failed(err, c))
			continue
		}
		document, p := once.DocumentOf(c), once.PositionOf(c, b.Epoch)
		keys = append(keys, s.prefix+hex.EncodeToString(document[:]))
		values = append(values, p.Epoch, p.LSN, p.Time, strings.Join(p.Versions, " "), len(given))
		values = append(values, given...)
	}
	if len(keys) == 0 {
		return errors.Join(failures...)
	}
	if err := s.script.Run(ctx, s.client, keys, values...).Err(); err != nil {
		return fmt.Errorf("write the effects of %d changes to Redis: %w", len(keys), err)
	}
	s.Meter.Wrote(len(keys))
	return errors.Join(failures...)
}

// failed keeps an error final.
func failed(err error, c trigger.Change) error {
	if verdict := trigger.NewBatch(c).Judge(err); verdict.GivenUp {
		return trigger.Skip(trigger.Failed(err, c))
	}
	return trigger.Failed(err, c)
}
