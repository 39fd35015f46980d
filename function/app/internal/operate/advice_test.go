package operate

import (
	"strings"
	"testing"

	"halley/trigger/stall"
)

// An operator reads the command next to the runtime's advice, which names none.
func TestAdviceNamesCommands(t *testing.T) {
	for command, stall := range map[string]stall.Stall{
		"the command deadletters replay": {Kind: stall.HandlerFails, Attempts: 10},
		"the command check":              {Kind: stall.FeedFails},
		"the command leases import":      {Kind: stall.Unreadable},
		"the command leases resume":      {Kind: stall.Paused},
	} {
		if advice := Advice(stall); !strings.HasPrefix(advice, stall.Advice()+"; ") || !strings.Contains(advice, command) {
			t.Errorf("%s: %s", stall.Kind, advice)
		}
	}
	for _, stall := range []stall.Stall{{Kind: stall.HandlerFails}, {Kind: stall.RateLimited}} {
		if advice := Advice(stall); advice != stall.Advice() {
			t.Errorf("%s: %s", stall.Kind, advice)
		}
	}
}
