package app

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisProbeTime bounds the probe.
const redisProbeTime = 3 * time.Second

// RedisProbe tries whether the Redis of a handler's setting REDIS_URL answers.
func RedisProbe(prefix string, client *redis.Client) Probe {
	return Probe{What: "Redis at " + client.Options().Addr, Try: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, redisProbeTime)
		defer cancel()
		if err := client.Ping(ctx).Err(); err != nil {
			return fmt.Errorf("%w: start it, or correct %sREDIS_URL", err, prefix)
		}
		return nil
	}}
}
