package sql

import (
	"math/big"
	"strings"
	"time"
)

// The date functions take and give UTC times in ISO 8601 with up to seven
// digits of a second: 2006-01-02T15:04:05.0000000Z. Ticks are 100 ns since 1970.
var timeFunctions = map[string]*function{
	"GETCURRENTDATETIME":        current(dateTime),
	"GETCURRENTDATETIMESTATIC":  current(dateTime),
	"GETCURRENTTIMESTAMP":       current(timestamp),
	"GETCURRENTTIMESTAMPSTATIC": current(timestamp),
	"GETCURRENTTICKS":           current(ticks),
	"GETCURRENTTICKSSTATIC":     current(ticks),
	"DATETIMETOTIMESTAMP":       ofTime(timestamp),
	"DATETIMETOTICKS":           ofTime(ticks),
	"TIMESTAMPTODATETIME":       ofInteger(func(n int64) value { return dateTime(time.UnixMilli(n)) }),
	"TICKSTODATETIME":           ofInteger(func(n int64) value { return dateTime(fromTicks(n)) }),
	"DATETIMEADD":               ofAny(3, 3, dateTimeAdd),
	"DATETIMEBIN":               ofAny(2, 4, dateTimeBin),
	"DATETIMEDIFF":              ofAny(3, 3, dateTimeDiff),
	"DATETIMEPART":              ofAny(2, 2, dateTimePart),
	"DATETIMEFROMPARTS":         ofAny(3, 7, dateTimeFromParts),
}

const (
	timeLayout   = "2006-01-02T15:04:05.0000000Z"
	ticksOfMilli = 10_000
	ticksOfSec   = 1000 * ticksOfMilli
	nanosOfTick  = 100
)

func dateTime(t time.Time) value {
	if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 {
		return undefined
	}
	return text(t.Format(timeLayout))
}

func timestamp(t time.Time) value { return exact(t.UnixMilli()) }

func ticks(t time.Time) value { return exact(toTicks(t)) }

func toTicks(t time.Time) int64 { return t.Unix()*ticksOfSec + int64(t.Nanosecond()/nanosOfTick) }

func fromTicks(n int64) time.Time { return time.Unix(n/ticksOfSec, n%ticksOfSec*nanosOfTick) }

func current(f func(time.Time) value) *function {
	return &function{0, 0, false, func(r *run, _ []value) value { return f(r.now) }}
}

func ofTime(f func(time.Time) value) *function {
	return of1(func(v value) value {
		if t, ok := parseTime(v); ok {
			return f(t)
		}
		return undefined
	})
}

func ofInteger(f func(int64) value) *function {
	return of1(func(v value) value {
		if n, ok := v.integer(); ok {
			return f(n)
		}
		return undefined
	})
}

// parseTime reads a date, or a time in UTC with or without its Z.
func parseTime(v value) (time.Time, bool) {
	if v.kind != kindString {
		return time.Time{}, false
	}
	for _, layout := range []string{
		"2006-01-02T15:04:05.9999999Z", "2006-01-02T15:04:05.9999999", "2006-01-02T15:04Z", "2006-01-02T15:04", "2006-01-02",
	} {
		if t, err := time.Parse(layout, v.text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// unitNames are the spellings of the date parts.
var unitNames = map[string]string{
	"year": "year", "yyyy": "year", "yy": "year",
	"month": "month", "mm": "month", "m": "month",
	"day": "day", "dd": "day", "d": "day",
	"hour": "hour", "hh": "hour",
	"minute": "minute", "mi": "minute", "n": "minute",
	"second": "second", "ss": "second", "s": "second",
	"millisecond": "millisecond", "ms": "millisecond",
	"microsecond": "microsecond", "mcs": "microsecond",
	"nanosecond": "nanosecond", "ns": "nanosecond",
	"weekday": "weekday", "dw": "weekday", "w": "weekday",
}

// unitLengths are those of the units that have one.
var unitLengths = map[string]time.Duration{
	"day": 24 * time.Hour, "hour": time.Hour, "minute": time.Minute, "second": time.Second,
	"millisecond": time.Millisecond, "microsecond": time.Microsecond, "nanosecond": 1,
}

func unit(v value) string {
	if v.kind != kindString {
		return ""
	}
	return unitNames[strings.ToLower(v.text)]
}

// dateTimeAdd is DateTimeAdd(part, number, time).
func dateTimeAdd(a []value) value {
	n, okN := a[1].integer()
	t, okT := parseTime(a[2])
	const limit = 1 << 40 // no sum of so many units overflows
	if !okN || !okT || n > limit || n < -limit {
		return undefined
	}
	switch u := unit(a[0]); {
	case u == "year":
		return addMonths(t, 12*n)
	case u == "month":
		return addMonths(t, n)
	case unitLengths[u] != 0:
		return addUnits(t, n, unitLengths[u])
	}
	return undefined
}

// addMonths keeps the day, or takes the last one if the month is shorter.
func addMonths(t time.Time, n int64) value {
	if n > 120_000 || n < -120_000 {
		return undefined
	}
	sum := t.AddDate(0, int(n), 0)
	if sum.Day() != t.Day() {
		sum = sum.AddDate(0, 0, -sum.Day())
	}
	return dateTime(sum)
}

func addUnits(t time.Time, n int64, length time.Duration) value {
	if length < time.Second {
		return dateTime(t.Add(time.Duration(n) * length))
	}
	return dateTime(time.Unix(t.Unix()+n*int64(length/time.Second), int64(t.Nanosecond())))
}

// earliestBin is the first origin that DateTimeBin accepts: the Windows epoch,
// https://learn.microsoft.com/azure/cosmos-db/nosql/query/datetimebin.
var earliestBin = time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC)

// dateTimeBin is DateTimeBin(time, part[, size[, origin]]): the start of the bin
// that holds the time, if bins of so many parts begin at the origin.
func dateTimeBin(a []value) value {
	size, origin := int64(1), time.Unix(0, 0)
	t, ok := parseTime(a[0])
	length := unitLengths[unit(a[1])]
	if ok && len(a) > 2 {
		size, ok = a[2].integer()
	}
	if ok && len(a) > 3 {
		origin, ok = parseTime(a[3])
	}
	if !ok || length == 0 || size < 1 || origin.Before(earliestBin) {
		return undefined
	}
	// Nanoseconds since a distant origin overflow 64 bits.
	passed := new(big.Int).Mul(big.NewInt(toTicks(t)-toTicks(origin)), big.NewInt(nanosOfTick))
	bin := new(big.Int).Mul(big.NewInt(size), big.NewInt(int64(length)))
	passed.Sub(passed, new(big.Int).Mod(passed, bin))
	start := passed.Div(passed, big.NewInt(nanosOfTick)).Add(passed, big.NewInt(toTicks(origin)))
	if !start.IsInt64() {
		return undefined
	}
	return dateTime(fromTicks(start.Int64()))
}

// dateTimeDiff is DateTimeDiff(part, start, end): how many bounds of the part
// lie between the times.
func dateTimeDiff(a []value) value {
	start, okStart := parseTime(a[1])
	end, okEnd := parseTime(a[2])
	if !okStart || !okEnd {
		return undefined
	}
	switch u := unit(a[0]); {
	case u == "year":
		return integer(end.Year() - start.Year())
	case u == "month":
		return integer(12*(end.Year()-start.Year()) + int(end.Month()) - int(start.Month()))
	case u == "microsecond":
		return exact(toTicks(end)/10 - toTicks(start)/10)
	case u == "nanosecond":
		return exact((toTicks(end) - toTicks(start)) * nanosOfTick)
	case unitLengths[u] != 0:
		length := int64(unitLengths[u] / nanosOfTick)
		return exact(floorDiv(toTicks(end), length) - floorDiv(toTicks(start), length))
	}
	return undefined
}

func floorDiv(n, divisor int64) int64 {
	if n < 0 {
		n -= divisor - 1
	}
	return n / divisor
}

// dateTimePart is DateTimePart(part, time).
func dateTimePart(a []value) value {
	t, ok := parseTime(a[1])
	if !ok {
		return undefined
	}
	switch unit(a[0]) {
	case "year":
		return integer(t.Year())
	case "month":
		return integer(int(t.Month()))
	case "day":
		return integer(t.Day())
	case "weekday":
		return integer(int(t.Weekday()) + 1)
	case "hour":
		return integer(t.Hour())
	case "minute":
		return integer(t.Minute())
	case "second":
		return integer(t.Second())
	case "millisecond":
		return integer(t.Nanosecond() / 1e6)
	case "microsecond":
		return integer(t.Nanosecond() / 1e3)
	case "nanosecond":
		return integer(t.Nanosecond())
	}
	return undefined
}

// dateTimeFromParts takes year, month, day and optionally the rest down to the
// ticks of a second.
func dateTimeFromParts(a []value) value {
	n := [7]int{}
	for i, v := range a {
		part, ok := v.integer()
		if !ok || part < 0 || part > ticksOfSec {
			return undefined
		}
		n[i] = int(part)
	}
	t := time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5], n[6]*nanosOfTick, time.UTC)
	if t.Year() != n[0] || int(t.Month()) != n[1] || t.Day() != n[2] || t.Hour() != n[3] || t.Minute() != n[4] || t.Second() != n[5] {
		return undefined
	}
	return dateTime(t)
}
