package app

import (
	"strings"
	"testing"

	"halley/trigger"
)

// An operator reads the command next to the runtime's advice, which names none.
func TestAdviceNamesCommands(t *testing.T) {
	for command, stall := range map[string]trigger.Stall{
		"the command deadletters replay": {Kind: trigger.StallHandlerFails, Attempts: 10},
		"the command check":              {Kind: trigger.StallFeedFails},
		"the command leases import":      {Kind: trigger.StallUnreadable},
		"the command leases resume":      {Kind: trigger.StallPaused},
	} {
		if advice := stallAdvice(stall); !strings.HasPrefix(advice, stall.Advice()+"; ") || !strings.Contains(advice, command) {
			t.Errorf("%s: %s", stall.Kind, advice)
		}
	}
	for _, stall := range []trigger.Stall{{Kind: trigger.StallHandlerFails}, {Kind: trigger.StallRateLimited}} {
		if advice := stallAdvice(stall); advice != stall.Advice() {
			t.Errorf("%s: %s", stall.Kind, advice)
		}
	}
}
