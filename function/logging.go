package main

import (
	"io"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"halley/trigger/redact"
)

// newLogger logs JSON lines to stdout and redirects Go's log package there as well:
// if a line went to stderr, the Functions host would report it as an error. The
// watcher of signals uses it as well.
func newLogger(level logLevel) *zap.Logger {
	log := jsonLogger(os.Stdout, level)
	zap.RedirectStdLog(log)
	zap.ReplaceGlobals(log)
	return log
}

// jsonLogger writes one JSON object per line to w, without the secrets of URLs and
// without characters that control a terminal.
func jsonLogger(w io.Writer, level logLevel) *zap.Logger {
	least, err := zapcore.ParseLevel(string(level))
	if err != nil {
		least = zapcore.InfoLevel
	}
	out := zapcore.Lock(zapcore.AddSync(redact.Writer(terminalSafe{w})))
	config := zap.NewProductionEncoderConfig()
	config.TimeKey, config.EncodeTime = "time", zapcore.RFC3339NanoTimeEncoder
	config.MessageKey = "message"
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(config), out, least), zap.ErrorOutput(out))
}
