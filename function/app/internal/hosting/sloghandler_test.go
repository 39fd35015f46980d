package hosting

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"halley/function/app/internal/settings"
)

// logged returns the lines that write logs as the runtime does, at a level of the settings.
func logged(t *testing.T, level settings.LogLevel, write func(*slog.Logger)) (lines []map[string]any) {
	t.Helper()
	var out bytes.Buffer
	write(runtimeLogger(JSONLogger(&out, level)))
	for line := range strings.Lines(out.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		if _, err := time.Parse(time.RFC3339Nano, fields["time"].(string)); err != nil {
			t.Error(err)
		}
		delete(fields, "time")
		lines = append(lines, fields)
	}
	return lines
}

func TestRuntimeLogsInTheFormatOfTheApp(t *testing.T) {
	got := logged(t, "info", func(log *slog.Logger) {
		log.Debug("below the level")
		log = log.With(slog.String("owner", "a"))
		log.Info("a", slog.String("range", "0"), slog.Duration("after", time.Second), slog.Int64("lsn", 7), slog.Attr{}, slog.Any("children", []string{"1", "2"}))
		log.Warn("b", slog.Any("error", errors.New("gone")), slog.Any("none", nil), slog.Float64("charge", 1.5), slog.Bool("ok", true))
		log.Error("c", slog.Time("since", time.Unix(1, 0).UTC()), slog.Group("page", slog.Int("size", 2)), slog.Group("empty"), slog.Group("", slog.Int("inline", 1)))
		log.WithGroup("").WithGroup("lease").With(slog.String("token", "0")).Info("d", slog.Int("changes", 1))
	})
	want := []map[string]any{
		{"level": "info", "message": "a", "owner": "a", "range": "0", "after": 1.0, "lsn": 7.0, "children": []any{"1", "2"}},
		{"level": "warn", "message": "b", "owner": "a", "error": "gone", "none": nil, "charge": 1.5, "ok": true},
		{"level": "error", "message": "c", "owner": "a", "since": "1970-01-01T00:00:01Z", "page": map[string]any{"size": 2.0}, "inline": 1.0},
		{"level": "info", "message": "d", "owner": "a", "lease": map[string]any{"token": "0", "changes": 1.0}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := logged(t, "warn", func(log *slog.Logger) { log.Info("below the level") }); len(got) != 0 {
		t.Errorf("logged %v", got)
	}
}

// A logger that names callers names the line of the runtime, not the adapter.
func TestRuntimeLogNamesItsCaller(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	runtimeLogger(zap.New(core, zap.AddCaller())).Info("x")
	if caller := logs.All()[0].Caller; !strings.HasSuffix(caller.File, "sloghandler_test.go") || !strings.HasSuffix(caller.Function, "TestRuntimeLogNamesItsCaller") {
		t.Errorf("caller %s in %s", caller.Function, caller.File)
	}
}
