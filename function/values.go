package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.uber.org/zap/zapcore"

	"halley/handlers/app"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// Values that settings of handlers have as well.
type (
	interval = app.Interval
	count    = app.Count
	toggle   = app.Toggle
)

// bound is a whole number; 0 is none.
type bound int

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (b *bound) Decode(s string) error {
	if s == "" {
		return nil
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return errors.New("not a whole number, 0 or more")
	}
	*b = bound(n)
	return nil
}

// limit is a positive whole number or "unlimited", which is -1 to the runtime.
type limit int

const unlimited limit = -1

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (l *limit) Decode(s string) error {
	if strings.EqualFold(s, "unlimited") {
		*l = unlimited
		return nil
	}
	if (*count)(l).Decode(s) != nil {
		return errors.New("neither a whole number above 0 nor unlimited")
	}
	return nil
}

func (l limit) String() string {
	if l == unlimited {
		return "unlimited"
	}
	return strconv.Itoa(int(l))
}

// list is a comma-separated setting.
type list []string

// Decode implements [envconfig.Decoder]; blank elements are dropped.
func (l *list) Decode(s string) error {
	*l = nil
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			*l = append(*l, part)
		}
	}
	return nil
}

func (l list) String() string { return strings.Join(l, ",") }

// connectionName names the variable, or the variables, that hold a connection.
// What is no such name may be the connection string itself: it prints as
// [redacted].
type connectionName string

// misplaced reports whether a connection string stands where its name belongs.
func (n connectionName) misplaced() bool { return strings.ContainsAny(string(n), "=;/") }

func (n connectionName) String() string {
	if n.misplaced() {
		return redacted
	}
	return string(n)
}

// Format implements [fmt.Formatter].
func (n connectionName) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(n.String())) }

// MarshalText implements [encoding.TextMarshaler].
func (n connectionName) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// redacted is printed in place of what may hold a secret.
const redacted = "[redacted]"

// mode says what a tick of the Functions host does.
type mode string

const (
	modeTimer      mode = "timer"      // the tick drains
	modeContinuous mode = "continuous" // the app runs all the time; the tick checks its health
)

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (m *mode) Decode(s string) error {
	switch mode(s) {
	case modeTimer, modeContinuous:
		*m = mode(s)
	case "":
	default:
		return fmt.Errorf("not a mode: write %s or %s", modeTimer, modeContinuous)
	}
	return nil
}

// feedMode is what the change feed shows.
type feedMode cosmos.Mode

// Decode implements [envconfig.Decoder]; an empty value leaves the default. The
// Cosmos DB extension's spellings, LatestVersion and AllVersionsAndDeletes, do
// as well.
func (m *feedMode) Decode(s string) error {
	switch strings.ToLower(strings.ReplaceAll(s, "-", "")) {
	case "latestversion":
		*m = feedMode(cosmos.LatestVersion)
	case "allversions", "allversionsanddeletes":
		*m = feedMode(cosmos.AllVersions)
	case "":
	default:
		return errors.New("not a mode of the change feed: write latest-version or all-versions")
	}
	return nil
}

func (m feedMode) String() string {
	if cosmos.Mode(m) == cosmos.AllVersions {
		return "all-versions"
	}
	return "latest-version"
}

// logLevel is the least level that is logged.
type logLevel string

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (l *logLevel) Decode(s string) error {
	if s == "" {
		return nil
	}
	if _, err := zapcore.ParseLevel(s); err != nil {
		return errors.New("not a level: write debug, info, warn or error")
	}
	*l = logLevel(s)
	return nil
}

// startFrom is where a range without a lease begins: "beginning", "now" or an
// RFC 3339 time. The zero value is now, the Cosmos DB extension's default.
type startFrom trigger.Start

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (f *startFrom) Decode(s string) error {
	start, err := trigger.ParseStart(s)
	if err != nil {
		return errors.New("not a start: write beginning, now or a time such as 2026-01-31T09:00:00Z")
	}
	*f = startFrom(start)
	return nil
}

func (f startFrom) String() string { return trigger.Start(f).String() }
