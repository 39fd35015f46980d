package operate

import (
	"strings"
	"testing"
	"time"

	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/stall"
)

// Status takes a range that waits for a limit of its function for no stall.
func TestStatusTakesNoLimitForStall(t *testing.T) {
	now := time.Now()
	l := FunctionLag{stallAfter: time.Minute}
	for kind, stalled := range map[stall.Kind]bool{
		stall.HandlerFails: true, stall.Paused: true, stall.RateLimited: false, stall.ReadsLimited: false,
	} {
		stalls := []stall.Stall{{Kind: kind, Since: now.Add(-time.Hour)}}
		if got := l.isStalled(trigger.Lag{Stalls: stalls}, now); got != stalled {
			t.Errorf("status takes %s for a stall: %v, want %v", kind, got, stalled)
		}
	}
}

// Two apps whose owners share the leases of a function are a warning, which why explains.
func TestSharedLeasesAreAWarning(t *testing.T) {
	shared := sumOf(settings.Function{}, []trigger.Lag{{Range: "0", Holder: "shop/orders", Known: true}, {Range: "1", Holder: "billing/orders", Known: true}}, nil)
	if !strings.HasPrefix(shared.Warning, "billing/orders and shop/orders take leases of one prefix") || shared.Problem != "" {
		t.Errorf("warning %q, problem %q", shared.Warning, shared.Problem)
	}
	causes, problems := LagReport{Time: time.Now(), Functions: []FunctionLag{shared}}.Why()
	if len(causes) != 1 || problems != 1 || causes[0].Cause != shared.Warning {
		t.Errorf("why gives %d problems: %+v", problems, causes)
	}
	foreign := FunctionLag{Name: "orders", Leases: []trigger.Lag{{Range: "0", Holder: "billing/orders"}}}
	if foreign.warnOfOthers("billing"); foreign.Warning != "" {
		t.Errorf("an app is warned of itself: %q", foreign.Warning)
	}
	if foreign.warnOfOthers("shop"); !strings.HasPrefix(foreign.Warning, "this app and billing/orders take leases") {
		t.Errorf("an app whose leases another one holds: warning %q", foreign.Warning)
	}
	alone := sumOf(settings.Function{}, []trigger.Lag{{Range: "0", Holder: "shop/orders", Known: true}, {Range: "1", Known: true}}, nil)
	if alone.Warning != "" {
		t.Errorf("one app is warned of: %q", alone.Warning)
	}
}
