package trigger

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap/zapcore"
)

// handlerCore writes the host's log to a [slog.Handler]. It is immutable.
type handlerCore struct{ handler slog.Handler }

// slogLevel maps levels by name; zap's levels above error are more severe than
// slog's.
func slogLevel(l zapcore.Level) slog.Level {
	switch {
	case l < zapcore.InfoLevel:
		return slog.LevelDebug
	case l == zapcore.InfoLevel:
		return slog.LevelInfo
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	case l == zapcore.ErrorLevel:
		return slog.LevelError
	}
	return slog.LevelError + 4
}

// Enabled implements [zapcore.LevelEnabler].
func (c handlerCore) Enabled(l zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), slogLevel(l))
}

// With implements [zapcore.Core]. A namespace becomes a group of the fields
// after it.
func (c handlerCore) With(fields []zapcore.Field) zapcore.Core {
	if i := slices.IndexFunc(fields, isNamespace); i >= 0 {
		group := c.handler.WithAttrs(attrs(fields[:i])).WithGroup(fields[i].Key)
		return handlerCore{group}.With(fields[i+1:])
	}
	return handlerCore{c.handler.WithAttrs(attrs(fields))}
}

// Check implements [zapcore.Core].
func (c handlerCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write implements [zapcore.Core]. The logger's name and the stack are attributes.
func (c handlerCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, slogLevel(e.Level), e.Message, e.Caller.PC)
	if e.LoggerName != "" {
		r.AddAttrs(slog.String("logger", e.LoggerName))
	}
	r.AddAttrs(attrs(fields)...)
	if e.Stack != "" {
		r.AddAttrs(slog.String("stack", e.Stack))
	}
	return c.handler.Handle(context.Background(), r)
}

// Sync implements [zapcore.Core]; a slog.Handler has nothing to flush.
func (handlerCore) Sync() error { return nil }

func isNamespace(f zapcore.Field) bool { return f.Type == zapcore.NamespaceType }

func attrs(fields []zapcore.Field) (out []slog.Attr) {
	for i, f := range fields {
		if isNamespace(f) {
			return append(out, slog.Attr{Key: f.Key, Value: slog.GroupValue(attrs(fields[i+1:])...)})
		}
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			out = append(out, slog.Any(f.Key, err))
			continue
		}
		values := zapcore.NewMapObjectEncoder()
		f.AddTo(values)
		for _, key := range slices.Sorted(maps.Keys(values.Fields)) { // several if f is inline
			out = append(out, slog.Any(key, values.Fields[key]))
		}
	}
	return out
}
