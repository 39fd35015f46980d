package remote

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"go.uber.org/zap"
)

// lineWriter calls line with each line that is written, without its line break. Of a
// longer line than most it keeps most and one bytes.
type lineWriter struct {
	most int
	line func([]byte)
	rest []byte // of a line that has not ended
}

// Write implements [io.Writer].
func (w *lineWriter) Write(text []byte) (int, error) {
	written := len(text)
	for {
		part, remainder, ended := bytes.Cut(text, []byte("\n"))
		w.rest = append(w.rest, part[:min(len(part), max(w.most+1-len(w.rest), 0))]...)
		if !ended {
			return written, nil
		}
		w.line(bytes.TrimSuffix(w.rest, []byte("\r")))
		w.rest = nil
		text = remainder
	}
}

// maxLogged is the longest line of output that is logged; the rest is cut off.
const maxLogged = 8 << 10

// logged returns a writer whose lines become lines of the log. Those of standard error are
// also kept for errors.
func (p *process) logged(stream string) *lineWriter {
	message := "command wrote to " + stream
	return &lineWriter{most: maxLogged, line: func(line []byte) {
		if stream == "stderr" {
			p.lastLines.add(line)
		}
		p.log.Info(message, zap.ByteString("line", line))
	}}
}

// lineTail keeps the last lines of an output, for an error. mutex guards lines.
type lineTail struct {
	mutex sync.Mutex
	lines []string
}

// Of a tail an error shows so many lines and bytes.
const (
	maxTailLines = 20
	maxTail      = maxShown
)

func (t *lineTail) add(line []byte) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.lines = append(t.lines[max(len(t.lines)+1-maxTailLines, 0):], strings.ToValidUTF8(string(line), "�"))
}

func (t *lineTail) clear() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.lines = nil
}

// explain adds the lines to an error.
func (t *lineTail) explain(err error) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	text := strings.TrimSpace(strings.Join(t.lines, "\n"))
	if text == "" {
		return err
	}
	if len(text) > maxTail {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxTail:], "")
	}
	return fmt.Errorf("%w; its last lines:\n%s", err, text)
}
