package settings

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"halley/handlers"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/units"
)

// Types of values that are used elsewhere as well.
type (
	interval = handlers.Interval
	count    = handlers.Count
	toggle   = handlers.Toggle
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

// priority is that of requests, as the service's header spells it; "" is the account's default.
type priority string

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (p *priority) Decode(s string) error {
	switch strings.ToLower(s) {
	case "":
	case "low":
		*p = "Low"
	case "high":
		*p = "High"
	default:
		return errors.New("not a priority: write low or high")
	}
	return nil
}

// bucket is the number of a throughput bucket; 0 is none.
type bucket int

// maxBuckets is the number of throughput buckets that a container can have:
// learn.microsoft.com/azure/cosmos-db/throughput-buckets.
const maxBuckets = 5

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (b *bucket) Decode(s string) error {
	if s == "" {
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxBuckets {
		return fmt.Errorf("not the number of a throughput bucket: write 1 to %d, or 0 for none", maxBuckets)
	}
	*b = bucket(n)
	return nil
}

// Prices are the prices of request units; zero is not known.
type Prices units.Prices

// Decode implements [envconfig.Decoder].
func (p *Prices) Decode(s string) (err error) {
	if s != "" {
		*(*units.Prices)(p), err = units.ParsePrices(s)
	}
	return err
}

// String returns the text that Decode reads.
func (p Prices) String() string { return units.Prices(p).String() }

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

// Limit is a positive whole number or "unlimited", which is -1 to the runtime.
type Limit int

// Unlimited is the limit without an end.
const Unlimited Limit = -1

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (l *Limit) Decode(s string) error {
	if strings.EqualFold(s, "unlimited") {
		*l = Unlimited
		return nil
	}
	if (*count)(l).Decode(s) != nil {
		return errors.New("neither a whole number above 0 nor unlimited")
	}
	return nil
}

func (l Limit) String() string {
	if l == Unlimited {
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

// Mode selects the work of a timer invocation of the Functions host.
type Mode string

const (
	ModeTimer      Mode = "timer"      // it drains
	ModeFanout     Mode = "fanout"     // it answers with a queue message for each range with work
	modeContinuous Mode = "continuous" // the app runs all the time, and the invocation checks its health
)

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (m *Mode) Decode(s string) error {
	switch Mode(s) {
	case ModeTimer, ModeFanout, modeContinuous:
		*m = Mode(s)
	case "":
	default:
		return fmt.Errorf("not a mode: write %s, %s or %s", ModeTimer, ModeFanout, modeContinuous)
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

// LogLevel is the lowest level that is logged.
type LogLevel string

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (l *LogLevel) Decode(s string) error {
	if s == "" {
		return nil
	}
	if _, err := zapcore.ParseLevel(s); err != nil {
		return errors.New("not a level: write debug, info, warn or error")
	}
	*l = LogLevel(s)
	return nil
}

// LogFormat selects how the log is written.
type LogFormat string

const (
	FormatAuto LogFormat = "auto" // text on a terminal, JSON elsewhere
	FormatJSON LogFormat = "json"
	FormatText LogFormat = "text"
)

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (f *LogFormat) Decode(s string) error {
	switch LogFormat(s) {
	case FormatAuto, FormatJSON, FormatText:
		*f = LogFormat(s)
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

// listenAddress is where a process serves its signals: a host, which may be empty for all
// interfaces, and a port. "" is nowhere.
type listenAddress string

// Decode implements [envconfig.Decoder].
func (a *listenAddress) Decode(s string) error {
	if s == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(s); err != nil {
		return errors.New("not an address: write a host and a port, such as 127.0.0.1:9464, or :9464 for all interfaces")
	}
	*a = listenAddress(s)
	return nil
}
