package redisurl

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"halley/handlers"
)

// Measure has a meter measure each request of a client: a command, or several in one
// pipeline. The repetitions that the client makes by itself after lost connections are in the
// time of a request. It is called before the client is used.
func Measure(client *redis.Client, meter *handlers.Meter) {
	if meter != nil {
		client.AddHook(measuring{meter})
	}
}

// measuring is a [redis.Hook].
type measuring struct{ meter *handlers.Meter }

// DialHook implements [redis.Hook].
func (m measuring) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

// ProcessHook implements [redis.Hook].
func (m measuring) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		began := time.Now()
		err := next(ctx, command)
		m.ended(began, err)
		return err
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (m measuring) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		began := time.Now()
		err := next(ctx, commands)
		m.ended(began, err)
		return err
	}
}

// ended knows the answers that are no failures: a key that does not exist, and a script that
// Redis does not have yet, which is then sent with its text.
func (m measuring) ended(began time.Time, err error) {
	isUnknownScript := redis.HasErrorPrefix(err, "NOSCRIPT")
	if errors.Is(err, redis.Nil) || isUnknownScript {
		err = nil
	}
	m.meter.Ended(began, err)
	if isUnknownScript {
		m.meter.Retried()
	}
}
