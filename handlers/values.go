package handlers

import (
	"errors"
	"strconv"
	"time"
)

// Interval is a duration setting in Go syntax ("5s", "1m30s"). If it is a plain
// number, it counts milliseconds, as in the settings of the Cosmos DB extension
// for Azure Functions.
type Interval time.Duration

// Decode implements envconfig's Decoder; an empty value leaves the default.
func (d *Interval) Decode(s string) error {
	if s == "" {
		return nil
	}
	if ms, err := strconv.ParseInt(s, 10, 32); err == nil {
		*d = Interval(time.Duration(ms) * time.Millisecond)
		return nil
	}
	parsed, err := time.ParseDuration(s)
	if err != nil {
		return errors.New(`not a duration: write "5s", "1m30s" or whole milliseconds`)
	}
	*d = Interval(parsed)
	return nil
}

func (d Interval) String() string { return time.Duration(d).String() }

// Count is a setting with a whole number above 0.
type Count int

// Decode implements envconfig's Decoder; an empty value leaves the default.
func (c *Count) Decode(s string) error {
	if s == "" {
		return nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 1 {
		return errors.New("not a whole number above 0")
	}
	*c = Count(n)
	return nil
}

// Toggle is a setting that is true or false.
type Toggle bool

// Decode implements envconfig's Decoder; an empty value leaves the default.
func (t *Toggle) Decode(s string) error {
	if s == "" {
		return nil
	}
	on, err := strconv.ParseBool(s)
	if err != nil {
		return errors.New("neither true nor false")
	}
	*t = Toggle(on)
	return nil
}
