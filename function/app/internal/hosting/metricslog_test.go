package hosting

import (
	"testing"

	"halley/trigger"
)

func TestLagText(t *testing.T) {
	for want, s := range map[string]trigger.Summary{
		"lag: 0 transactions, 0 s":                                 {},
		"lag: 7 transactions, 3 s":                                 {Lag: 7, LagSeconds: 3.2},
		"lag: not known of 2 ranges":                               {LagUnknown: 2},
		"lag: at least 7 transactions, 3 s; not known of 2 ranges": {Lag: 7, LagSeconds: 3.2, LagUnknown: 2},
	} {
		if got := LagText(s); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}
