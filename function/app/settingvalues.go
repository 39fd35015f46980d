package app

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"halley/function/app/internal/connection"
	"halley/handlers"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// Types of values that are used elsewhere as well.
type (
	interval       = handlers.Interval
	count          = handlers.Count
	toggle         = handlers.Toggle
	connectionName = connection.Name
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

// perSecond is a number, also with decimals; 0 is no limit.
type perSecond float64

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (r *perSecond) Decode(s string) error {
	if s == "" {
		return nil
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return errors.New("not a number, such as 50 or 0.5")
	}
	*r = perSecond(n)
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

// saveInterval is a duration or "each-batch".
type saveInterval time.Duration

const eachBatch = "each-batch"

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (i *saveInterval) Decode(s string) error {
	if strings.EqualFold(s, eachBatch) {
		*i = saveInterval(trigger.EachBatch)
		return nil
	}
	if err := (*interval)(i).Decode(s); err != nil {
		return fmt.Errorf("%w, or %s", err, eachBatch)
	}
	return nil
}

func (i saveInterval) String() string {
	if time.Duration(i) == trigger.EachBatch {
		return eachBatch
	}
	return interval(i).String()
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

// redacted is printed instead of a value that may hold a secret.
const redacted = "[redacted]"

// mode selects the work of a timer invocation of the Functions host.
type mode string

const (
	modeTimer      mode = "timer"      // it drains
	modeFanout     mode = "fanout"     // it answers with a queue message for each range with work
	modeContinuous mode = "continuous" // the app runs all the time, and the invocation checks its health
)

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (m *mode) Decode(s string) error {
	switch mode(s) {
	case modeTimer, modeFanout, modeContinuous:
		*m = mode(s)
	case "":
	default:
		return fmt.Errorf("not a mode: write %s, %s or %s", modeTimer, modeFanout, modeContinuous)
	}
	return nil
}

// feedMode selects latest versions or all versions.
type feedMode cosmos.Mode

// Decode implements [envconfig.Decoder]; an empty value leaves the default. The
// Cosmos DB extension's spellings, LatestVersion and AllVersionsAndDeletes, are
// accepted as well.
func (m *feedMode) Decode(s string) error {
	switch strings.ToLower(strings.ReplaceAll(s, "-", "")) {
	case "latestversion":
		*m = feedMode(cosmos.ModeLatestVersion)
	case "allversions", "allversionsanddeletes":
		*m = feedMode(cosmos.ModeAllVersions)
	case "":
	default:
		return errors.New("not a mode of the change feed: write latest-version or all-versions")
	}
	return nil
}

func (m feedMode) String() string {
	if cosmos.Mode(m) == cosmos.ModeAllVersions {
		return "all-versions"
	}
	return "latest-version"
}

// filterSetting is a pattern or a JSON list of patterns. The zero value passes all.
type filterSetting trigger.Filter

// Decode implements [envconfig.Decoder]; an empty value is no filter.
func (f *filterSetting) Decode(s string) (err error) {
	*f = nil
	if strings.TrimSpace(s) == "" {
		return nil
	}
	*(*trigger.Filter)(f), err = trigger.ParseFilter(s)
	return err
}

func (f filterSetting) String() string { return trigger.Filter(f).String() }

// logLevel is the lowest level that is logged.
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

// logFormat selects how the log is written.
type logFormat string

const (
	formatAuto logFormat = "auto" // text on a terminal, JSON elsewhere
	formatJSON logFormat = "json"
	formatText logFormat = "text"
)

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (f *logFormat) Decode(s string) error {
	switch logFormat(s) {
	case formatAuto, formatJSON, formatText:
		*f = logFormat(s)
	case "":
	default:
		return errors.New("not a format: write json, text or auto")
	}
	return nil
}

// startFrom is the position of a range without a checkpoint: "beginning", "now" or an
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
