package operate

import (
	"errors"
	"time"
)

// Moment is a flag that holds a time, given as such or as a duration before now.
type Moment struct{ time.Time }

// Set implements the value of a flag.
func (m *Moment) Set(s string) (err error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		m.Time = time.Now().Add(-d)
		return nil
	}
	if m.Time, err = time.Parse(time.RFC3339, s); err != nil {
		return errors.New("write a time such as 2026-01-31T09:00:00Z, or a duration such as 2h")
	}
	return nil
}

// Type implements the value of a flag.
func (m *Moment) Type() string { return "time" }

func (m *Moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Format(time.RFC3339)
}
