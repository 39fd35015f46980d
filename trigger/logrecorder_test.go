package trigger

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// logLine is a line of a log.
type logLine struct {
	Level   slog.Level
	Message string
	fields  map[string]any
}

// ContextMap returns the attributes of the line, those of its logger included.
func (l logLine) ContextMap() map[string]any { return l.fields }

// logLines are lines of a log.
type logLines []logLine

func (l logLines) All() []logLine { return l }
func (l logLines) Len() int       { return len(l) }

// logRecorder keeps the lines of a logger. The mutex guards them.
type logRecorder struct {
	mu    sync.Mutex
	lines logLines
}

// recordLog returns a logger whose lines are kept, from a level on.
func recordLog(level slog.Level) (*slog.Logger, *logRecorder) {
	r := &logRecorder{}
	return slog.New(recordingHandler{recorder: r, level: level}), r
}

// All returns the lines so far.
func (r *logRecorder) All() []logLine { return r.Filter(func(logLine) bool { return true }) }

// Filter returns the lines that a function chooses.
func (r *logRecorder) Filter(keep func(logLine) bool) logLines {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.lines), func(l logLine) bool { return !keep(l) })
}

// FilterMessage returns the lines with a message.
func (r *logRecorder) FilterMessage(message string) logLines {
	return r.Filter(func(l logLine) bool { return l.Message == message })
}

// FilterMessageSnippet returns the lines whose message contains a text.
func (r *logRecorder) FilterMessageSnippet(text string) logLines {
	return r.Filter(func(l logLine) bool { return strings.Contains(l.Message, text) })
}

// recordingHandler is the handler of a logRecorder. It is immutable.
type recordingHandler struct {
	recorder *logRecorder
	level    slog.Level
	attrs    []slog.Attr
}

func (h recordingHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h recordingHandler) Handle(_ context.Context, r slog.Record) error {
	line := logLine{r.Level, r.Message, map[string]any{}}
	add := func(a slog.Attr) bool {
		switch value := a.Value.Resolve().Any().(type) {
		case nil:
		case error:
			line.fields[a.Key] = value.Error()
		default:
			line.fields[a.Key] = value
		}
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	h.recorder.mu.Lock()
	defer h.recorder.mu.Unlock()
	h.recorder.lines = append(h.recorder.lines, line)
	return nil
}

func (h recordingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = slices.Concat(h.attrs, attrs)
	return h
}

func (h recordingHandler) WithGroup(string) slog.Handler { return h }
