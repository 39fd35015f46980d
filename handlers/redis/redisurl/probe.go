package redisurl

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"halley/handlers"
)

// probeTime bounds the probe.
const probeTime = 3 * time.Second

// Probe tries whether the Redis of a handler's setting REDIS_URL answers.
func Probe(prefix string, client *redis.Client) handlers.Probe {
	return handlers.Probe{What: "Redis at " + client.Options().Addr, Try: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()
		if err := client.Ping(ctx).Err(); err != nil {
			return fmt.Errorf("%w: start it, or correct %sREDIS_URL", err, prefix)
		}
		return nil
	}}
}
