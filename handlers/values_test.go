package handlers

import (
	"testing"
	"time"
)

func TestIntervalParsesDurationsAndMilliseconds(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"5s": 5 * time.Second, "1m30s": 90 * time.Second, "5000": 5 * time.Second, "0": 0, "250ms": 250 * time.Millisecond, "": time.Hour,
	} {
		d := Interval(time.Hour)
		if err := d.Decode(in); err != nil || time.Duration(d) != want {
			t.Errorf("%q = %v, %v, want %v", in, d, err, want)
		}
	}
	for _, in := range []string{"x", "5 s", "5.5", "1e3", "99999999999999999999"} {
		d := Interval(0)
		if err := d.Decode(in); err == nil {
			t.Errorf("%q = %v, want an error", in, d)
		}
	}
}
