package hosting

import (
	"context"
	"log/slog"
	"runtime"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// zapHandler writes the log of the runtime, which is of log/slog, to the app's logger. It is
// immutable.
type zapHandler struct{ log *zap.Logger }

// runtimeLogger returns the logger of the runtime that writes to the app's.
func runtimeLogger(log *zap.Logger) *slog.Logger { return slog.New(zapHandler{log}) }

// zapLevel returns the greatest level of zap that is not above a level of log/slog.
func zapLevel(l slog.Level) zapcore.Level {
	switch {
	case l < slog.LevelInfo:
		return zapcore.DebugLevel
	case l < slog.LevelWarn:
		return zapcore.InfoLevel
	case l < slog.LevelError:
		return zapcore.WarnLevel
	}
	return zapcore.ErrorLevel
}

// Enabled implements [slog.Handler].
func (h zapHandler) Enabled(_ context.Context, l slog.Level) bool {
	return h.log.Core().Enabled(zapLevel(l))
}

// Handle implements [slog.Handler].
func (h zapHandler) Handle(_ context.Context, r slog.Record) error {
	checked := h.log.Check(zapLevel(r.Level), r.Message)
	if checked == nil {
		return nil
	}
	checked.Time = r.Time
	if checked.Caller.Defined { // it is this method
		frame, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
		checked.Caller = zapcore.NewEntryCaller(frame.PC, frame.File, frame.Line, frame.PC != 0)
		checked.Caller.Function = frame.Function
	}
	fields := make([]zap.Field, 0, r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		fields = appendField(fields, a)
		return true
	})
	checked.Write(fields...)
	return nil
}

// WithAttrs implements [slog.Handler].
func (h zapHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return zapHandler{h.log.With(zapFields(attrs)...)}
}

// WithGroup implements [slog.Handler]. The fields after it are in a namespace.
func (h zapHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return zapHandler{h.log.With(zap.Namespace(name))}
}

func zapFields(attrs []slog.Attr) (fields []zap.Field) {
	for _, a := range attrs {
		fields = appendField(fields, a)
	}
	return fields
}

// appendField appends an attribute as zap writes its kind: the attributes of a group without
// a name one by one, and an empty attribute not at all.
func appendField(fields []zap.Field, a slog.Attr) []zap.Field {
	value := a.Value.Resolve()
	switch value.Kind() {
	case slog.KindString:
		return append(fields, zap.String(a.Key, value.String()))
	case slog.KindInt64:
		return append(fields, zap.Int64(a.Key, value.Int64()))
	case slog.KindDuration:
		return append(fields, zap.Duration(a.Key, value.Duration()))
	case slog.KindTime:
		return append(fields, zap.Time(a.Key, value.Time()))
	case slog.KindGroup:
		group := zapFields(value.Group())
		switch {
		case a.Key == "":
			return append(fields, group...)
		case len(group) == 0:
			return fields
		}
		return append(fields, zap.Dict(a.Key, group...))
	}
	if a.Equal(slog.Attr{}) {
		return fields
	}
	if err, ok := value.Any().(error); ok {
		return append(fields, zap.NamedError(a.Key, err))
	}
	return append(fields, zap.Any(a.Key, value.Any()))
}
