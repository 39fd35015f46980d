package main

import (
	"context"
	"fmt"
)

// startCache keeps the cache in the embedded Redis.
func startCache(s *stage) (*part, error) {
	url, err := s.redisURL()
	if err != nil {
		return nil, err
	}
	client := s.redisClient()
	read := func(ctx context.Context) (versions, error) {
		cached := versions{}
		keys := client.Scan(ctx, 0, "result:*", 1000).Iterator()
		for keys.Next(ctx) {
			text, err := client.Get(ctx, keys.Val()).Bytes()
			if err != nil {
				return nil, err
			}
			if err := cached.add(text); err != nil {
				return nil, err
			}
		}
		return cached, keys.Err()
	}
	return &part{
		settings: map[string]string{"HALLEY_CACHE_REDIS_URL": url, "HALLEY_CACHE_KEY": "result:{id}"},
		read:     read,
		compare: func(ctx context.Context, written []document) (string, error) {
			cached, err := read(ctx)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("Redis has the last version of all %d documents under result:{id}, and no other", len(written)), cached.equal(written)
		},
	}, nil
}
