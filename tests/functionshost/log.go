package functionshost

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// Level is the host's log level of a line of the handler's output.
type Level string

const (
	Information Level = "Information"
	Warning     Level = "Warning"
	Error       Level = "Error"
	System      Level = "System" // prefixed LanguageWorkerConsoleLog
)

// Line is one line that a handler process wrote.
type Line struct {
	Level  Level
	Stderr bool
	Text   string
}

// output collects the lines of every handler process of a host.
type output struct {
	stderrIsError bool

	mu    sync.Mutex
	lines []Line
}

func (o *output) add(l Line) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, l)
}

func (o *output) all() []Line {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lines)
}

// level follows azure-functions-host, WorkerConsoleLogService and
// WorkerProcess.OnErrorDataReceived. Lines of stdout are information. Lines of
// stderr are warnings if they contain "warn", else errors; if
// useStdErrorStreamForErrorsOnly is false, they are errors only if they contain
// error, fail or severe.
func (o *output) level(stderr bool, text string) Level {
	lower := strings.ToLower(text)
	switch {
	case strings.HasPrefix(text, "LanguageWorkerConsoleLog"):
		return System
	case !stderr:
		return Information
	case strings.Contains(lower, "warn"):
		return Warning
	case o.stderrIsError, strings.Contains(lower, "error"), strings.Contains(lower, "fail"), strings.Contains(lower, "severe"):
		return Error
	}
	return Information
}

// stream cuts one stream of one process into lines.
type stream struct {
	to     *output
	stderr bool
	rest   []byte
	last   []string // the newest error lines, for the exit message
}

func (s *stream) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for {
		line, rest, found := bytes.Cut(s.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		s.rest = rest
		s.line(string(bytes.TrimRight(line, "\r")))
	}
}

// flush records a last line without a newline. It is called when the process has
// ended.
func (s *stream) flush() {
	if len(s.rest) > 0 {
		s.line(string(s.rest))
		s.rest = nil
	}
}

func (s *stream) line(text string) {
	level := s.to.level(s.stderr, text)
	s.to.add(Line{Level: level, Stderr: s.stderr, Text: text})
	if level == Error {
		s.last = append(s.last, text)
		s.last = s.last[max(0, len(s.last)-3):]
	}
}
