package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
)

// logged returns the lines of JSON that write logs through a slog.Handler.
func logged(t *testing.T, level slog.Level, write func(*zap.Logger)) (lines []map[string]any) {
	t.Helper()
	var out bytes.Buffer
	handler := slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level})
	write(zap.New(handlerCore{handler}))
	for line := range strings.Lines(out.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		delete(fields, "time")
		lines = append(lines, fields)
	}
	return lines
}

func TestLogHandlerGetsLevelsAndFields(t *testing.T) {
	got := logged(t, slog.LevelInfo, func(log *zap.Logger) {
		log.Debug("below the handler's level")
		log.Info("a", zap.String("range", "0"), zap.Duration("after", time.Second), zap.Int64("lsn", 7), zap.Skip())
		log.Warn("b", zap.Error(errors.New("gone")))
		log.Named("push").Error("c")
		log.DPanic("d", zap.Strings("children", []string{"1", "2"}), zap.Any("range", map[string]int{"x": 1}))
	})
	want := []map[string]any{
		{"level": "INFO", "msg": "a", "range": "0", "after": 1e9, "lsn": 7.0},
		{"level": "WARN", "msg": "b", "error": "gone"},
		{"level": "ERROR", "msg": "c", "logger": "push"},
		{"level": "ERROR+4", "msg": "d", "children": []any{"1", "2"}, "range": map[string]any{"x": 1.0}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLogHandlerGroupsNamespaces(t *testing.T) {
	got := logged(t, slog.LevelDebug, func(log *zap.Logger) {
		log = log.With(zap.String("owner", "a"), zap.Namespace("lease"), zap.String("token", "0"))
		log.Info("x", zap.Int("changes", 1), zap.Namespace("page"), zap.Int("size", 2))
	})
	want := []map[string]any{{
		"level": "INFO", "msg": "x", "owner": "a",
		"lease": map[string]any{"token": "0", "changes": 1.0, "page": map[string]any{"size": 2.0}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLogHandlerGetsStackAndSource(t *testing.T) {
	var out bytes.Buffer
	handler := slog.NewJSONHandler(&out, &slog.HandlerOptions{AddSource: true})
	zap.New(handlerCore{handler}, zap.AddCaller(), zap.AddStacktrace(zap.ErrorLevel)).Error("x")
	var line struct {
		Stack  string
		Source slog.Source
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || !strings.Contains(line.Stack, "TestLogHandlerGetsStackAndSource") || !strings.HasSuffix(line.Source.File, "sloghandler_test.go") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestHostLogsToItsHandlerUnlessItHasALogger(t *testing.T) {
	for _, logger := range []*zap.Logger{nil, zap.NewNop()} {
		var out bytes.Buffer
		inWorld(t, 1, func(t *testing.T, w *world) {
			w.writeMany("doc", 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, _ = w.host("a", func(context.Context, Batch) error { return errPoison }, func(_ *Function, o *Options) {
				o.Logger, o.LogHandler = logger, slog.NewTextHandler(&out, nil)
			}).Drain(ctx)
		})
		if (logger == nil) != strings.Contains(out.String(), "poison") {
			t.Errorf("logger %v, the handler got %q", logger, out.String())
		}
	}
}
