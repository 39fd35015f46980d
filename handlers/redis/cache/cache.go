// Package cache keeps a cache in Redis in step with a container: one key for each
// document, with the document or some of its properties as JSON.
//
// The one rule: a script writes the key and the position of its document together, and
// only if the change comes after that position; see package [halley/handlers/once]. So an
// older version never replaces a newer one, also if changes are delivered twice, or late by
// a former owner.
//
// Deletes remove the key: a soft delete (SoftDeleteProperty), and in all-versions mode
// every delete and every expiry. The position stays as a tombstone for TOMBSTONE_TTL, so
// that a late older version does not bring the key back. In latest-version mode without
// soft deletes, keys of deleted documents stay until their TTL is over.
//
// If the key of a document changes, because a property that it is made of does, the former
// key is removed in the same script. The versions of a document arrive in their order;
// between documents there is no order.
//
// Errors: if a document lacks a property of its key, it is dead-lettered with the reason.
// If Redis cannot be reached, the batch is retried.
package cache

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"halley/handlers"
	"halley/handlers/property"
	"halley/handlers/redis"
	"halley/handlers/redis/redisurl"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// Settings of the handler, read with the prefix HALLEY_CACHE_.
type Settings struct {
	RedisURL       handlers.URL      `split_words:"true" desc:"Redis that holds the cache, redis:// or rediss:// (TLS); required"`
	Key            string            `desc:"key of a document: text with {/path} for a property, {id} for the id and {key} for the partition key, such as product:{/category}:{id}; required"`
	Properties     []string          `desc:"paths of the properties to cache, such as /name,/price; the whole document if empty"`
	TTL            handlers.Interval `default:"0s" desc:"time to live of a key, counted from its last write; 0s is for ever"`
	TombstoneTTL   handlers.Interval `split_words:"true" default:"24h" desc:"how long a deleted document is remembered; longer than the function is ever behind"`
	PositionPrefix string            `split_words:"true" default:"halley:cache:" desc:"begins the keys of the positions; functions that share a Redis differ in it"`
}

// Open returns the handler. It does not connect, so Redis may start later.
func Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	client, err := redisurl.Client(s.RedisURL)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %sREDIS_URL %w", env.Prefix, err)
	}
	d, err := s.definition(env.Prefix)
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	env.OfferProbe(redisurl.Probe(env.Prefix, client))
	cache, meter := New(client, d), env.Meter("redis")
	redisurl.Measure(client, meter)
	cache.positions.Meter = meter
	return cache.Handler(), client.Close, nil
}

func (s Settings) definition(prefix string) (d Definition, err error) {
	if d.Key, err = ParseKey(s.Key); err != nil {
		return d, fmt.Errorf("setting %sKEY: %w", prefix, err)
	}
	names := map[string]bool{}
	for _, text := range s.Properties {
		path, err := property.Parse(strings.TrimSpace(text))
		if err != nil {
			return d, fmt.Errorf("setting %sPROPERTIES: %w", prefix, err)
		}
		if names[path.Name()] {
			return d, fmt.Errorf("setting %sPROPERTIES: two properties are named %q in the cache: leave one out", prefix, path.Name())
		}
		names[path.Name()] = true
		d.Properties = append(d.Properties, path)
	}
	d.TTL, d.TombstoneTTL, d.PositionPrefix = time.Duration(s.TTL), time.Duration(s.TombstoneTTL), s.PositionPrefix
	switch {
	case d.TTL < 0 || d.TTL > 0 && d.TTL < time.Millisecond:
		return d, fmt.Errorf("setting %sTTL is %s: write 0s, or a millisecond at least", prefix, d.TTL)
	case d.TombstoneTTL < time.Minute:
		return d, fmt.Errorf("setting %sTOMBSTONE_TTL is %s: write a minute at least, and longer than the function is ever behind", prefix, d.TombstoneTTL)
	case d.PositionPrefix == "":
		return d, fmt.Errorf("setting %sPOSITION_PREFIX is empty: write halley:cache: or another prefix that no other key has", prefix)
	}
	return d, nil
}

// Definition describes a cache. Key and PositionPrefix are required.
type Definition struct {
	Key            Key
	Properties     []property.Path // by their last names; the whole document if empty
	TTL            time.Duration   // of a key; 0 is for ever
	TombstoneTTL   time.Duration   // how long a position outlives its key
	PositionPrefix string
}

// Cache is a cache in Redis. It is safe for concurrent use.
type Cache struct {
	Definition
	positions *redis.Store
}

//go:embed effect.lua
var effect string

// New returns a cache. The caller closes client when the cache is no longer used.
func New(client *goredis.Client, d Definition) *Cache {
	return &Cache{d, redis.New(client, d.PositionPrefix, effect)}
}

// Handler keeps the cache in step, with one round trip for each batch.
func (c *Cache) Handler() trigger.Handler {
	return func(ctx context.Context, b trigger.Batch) error {
		return c.positions.Apply(ctx, b, c.arguments)
	}
}

// arguments returns those of the script for a change.
func (c *Cache) arguments(change trigger.Change) ([]any, error) {
	if change.Operation == cosmos.OperationDelete || change.Operation == cosmos.OperationExpire {
		key, err := c.Key.of(change)
		if err != nil {
			key = "" // the script knows the key under which it has stored the document
		}
		return []any{key, "", 0, c.TombstoneTTL.Milliseconds()}, nil
	}
	key, err := c.Key.of(change)
	if err != nil {
		return nil, trigger.Skip(fmt.Errorf("document %q: %w", change.ID(), err))
	}
	return []any{key, c.value(change.Document), c.TTL.Milliseconds(), c.TombstoneTTL.Milliseconds()}, nil
}

// value returns the text to cache for a document.
func (c *Cache) value(document json.RawMessage) string {
	if len(c.Properties) == 0 {
		return string(document)
	}
	var text strings.Builder
	text.WriteByte('{')
	for _, path := range c.Properties {
		value := path.Of(document)
		if value == nil {
			continue
		}
		if text.Len() > 1 {
			text.WriteByte(',')
		}
		name, _ := json.Marshal(path.Name()) // a text is always marshalled
		text.Write(name)
		text.WriteByte(':')
		text.Write(value)
	}
	text.WriteByte('}')
	return text.String()
}
