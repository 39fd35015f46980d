package handlers

import "context"

type traceparentKey struct{}

// WithTraceparent returns a context that carries the trace context of a handler call, as the
// header traceparent of W3C Trace Context does. An export of traces sets it, for handlers
// that call programs outside of this process.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceparentKey{}, traceparent)
}

// Traceparent returns the trace context of a handler call, "" if it is not traced.
func Traceparent(ctx context.Context) string {
	traceparent, _ := ctx.Value(traceparentKey{}).(string)
	return traceparent
}
