package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"halley/handlers"
)

// Measure has a meter measure each request of the pool that a configuration makes: a
// statement, or several in one batch.
func Measure(config *pgxpool.Config, meter *handlers.Meter) {
	if meter != nil {
		config.ConnConfig.Tracer = tracer{meter}
	}
}

// tracer is a [pgx.QueryTracer] and a [pgx.BatchTracer].
type tracer struct{ meter *handlers.Meter }

// beganKey has the time when a request began, in its context.
type beganKey struct{}

func (t tracer) ended(ctx context.Context, err error) {
	if began, ok := ctx.Value(beganKey{}).(time.Time); ok {
		t.meter.Ended(began, err)
	}
}

// TraceQueryStart implements [pgx.QueryTracer].
func (t tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, beganKey{}, time.Now())
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (t tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, end pgx.TraceQueryEndData) {
	t.ended(ctx, end.Err)
}

// TraceBatchStart implements [pgx.BatchTracer].
func (t tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return context.WithValue(ctx, beganKey{}, time.Now())
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (t tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements [pgx.BatchTracer].
func (t tracer) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, end pgx.TraceBatchEndData) {
	t.ended(ctx, end.Err)
}
