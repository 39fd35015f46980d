package remote

import (
	"encoding/json"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// channelVariable tells a command the descriptors of its channel: the one that it reads
// requests from, a comma, and the one that it writes messages to.
const channelVariable = "HALLEY_CHANNEL"

// message is a line on a channel that is not an answer.
type message struct {
	Ready *int     `json:"ready"` // version of the protocol; sent once, before all others
	Log   *logLine `json:"log"`
}

// logLine is a line for the log.
type logLine struct {
	Level   string         `json:"level"` // as zap names it; info if it does not know it
	Message string         `json:"message"`
	Fields  map[string]any `json:"fields"`
}

// received takes a line of the channel. It runs in the goroutine that copies the channel.
func (p *process) received(line []byte) {
	var m message
	switch err := json.Unmarshal(line, &m); {
	case err == nil && m.Log != nil:
		m.Log.write(p.log)
	case err == nil && m.Ready != nil && *m.Ready == channelVersion && p.isStarting():
		close(p.ready)
	default:
		p.answered(line)
	}
}

// isStarting reports whether the process has not said that it is ready. Only received
// closes ready.
func (p *process) isStarting() bool {
	select {
	case <-p.ready:
		return false
	default:
		return true
	}
}

func (l *logLine) write(log *zap.Logger) {
	level, err := zapcore.ParseLevel(l.Level)
	if err != nil || level > zapcore.ErrorLevel { // the others end this process
		level = zapcore.InfoLevel
		if err == nil {
			level = zapcore.ErrorLevel
		}
	}
	fields := make([]zap.Field, 0, len(l.Fields))
	for name, value := range l.Fields {
		fields = append(fields, zap.Any(name, value))
	}
	log.Log(level, l.Message, fields...)
}
