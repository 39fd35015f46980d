package hosting

import (
	"io"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
	"halley/trigger/redact"
)

// NewLogger logs JSON lines to stdout and redirects Go's log package there as well:
// if a line went to stderr, the Functions host would report it as an error. The
// watcher of signals uses it as well.
func NewLogger(level settings.LogLevel) *zap.Logger {
	return processLogger(JSONLogger(os.Stdout, level))
}

// NewRunLogger logs to stdout like NewLogger, in the format of the settings.
func NewRunLogger(s settings.App) *zap.Logger { return processLogger(LoggerTo(os.Stdout, s)) }

// LoggerTo writes to w in the format of the settings.
func LoggerTo(w io.Writer, s settings.App) *zap.Logger {
	if s.LogFormat == settings.FormatText || s.LogFormat == settings.FormatAuto && text.IsTerminal(w) {
		return TextLogger(w, s.LogLevel)
	}
	return JSONLogger(w, s.LogLevel)
}

func processLogger(log *zap.Logger) *zap.Logger {
	zap.RedirectStdLog(log)
	zap.ReplaceGlobals(log)
	return log
}

// JSONLogger writes one JSON object per line to w, without the secrets of URLs and
// without characters that control a terminal.
func JSONLogger(w io.Writer, level settings.LogLevel) *zap.Logger {
	config := zap.NewProductionEncoderConfig()
	config.TimeKey, config.EncodeTime = "time", zapcore.RFC3339NanoTimeEncoder
	config.MessageKey = "message"
	return loggerTo(w, level, zapcore.NewJSONEncoder(config))
}

// TextLogger writes one line for people to w: time, level, message and the fields.
func TextLogger(w io.Writer, level settings.LogLevel) *zap.Logger {
	config := zap.NewDevelopmentEncoderConfig()
	config.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
	config.EncodeLevel = zapcore.CapitalLevelEncoder
	config.CallerKey, config.StacktraceKey = "", ""
	config.ConsoleSeparator = "  "
	return loggerTo(w, level, zapcore.NewConsoleEncoder(config))
}

func loggerTo(w io.Writer, level settings.LogLevel, encoder zapcore.Encoder) *zap.Logger {
	least, err := zapcore.ParseLevel(string(level))
	if err != nil {
		least = zapcore.InfoLevel
	}
	out := zapcore.Lock(zapcore.AddSync(redact.Writer(text.SafeWriter(w))))
	return zap.New(zapcore.NewCore(encoder, out, least), zap.ErrorOutput(out))
}
