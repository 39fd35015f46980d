package trigger

import (
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// Two apps with one lease prefix share the work: the leases, the status of each and its log
// name the other. An app without a name is silent.
func TestAppsThatShareLeasesAreTold(t *testing.T) {
	for name, test := range map[string]struct {
		second string
		shared []string // as the first app sees it
	}{
		"another app":         {"billing", []string{"billing/test"}},
		"the same app":        {"shop", nil},
		"an app without name": {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 4, func(t *testing.T, w *world) {
				in := func(app string) func(*Function, *Options) {
					return func(_ *Function, o *Options) { o.AppName = app }
				}
				log, recorded := recordLog(slog.LevelWarn)
				a := w.host("a", w.recorder("a"), in("shop"), func(_ *Function, o *Options) { o.Logger = log })
				b := w.host("b", w.recorder("b"), in(test.second), withoutLogger)
				stopA, stopB := w.startHost(a), w.startHost(b)
				time.Sleep(2 * time.Minute)
				defer stopB()
				defer stopA()
				if got := a.Status().Functions[0].SharedWith; fmt.Sprint(got) != fmt.Sprint(test.shared) {
					t.Errorf("the first app shares with %q, want %q", got, test.shared)
				}
				if got := b.Status().Functions[0].SharedWith; (len(got) > 0) != (test.shared != nil) {
					t.Errorf("the second app shares with %q", got)
				}
				if got := recorded.FilterMessageSnippet("takes leases of this one").Len(); got != len(test.shared) {
					t.Errorf("%d lines of the log tell it", got)
				}
				holders := map[string]int{}
				for _, l := range w.lagByRange() {
					holders[l.Holder]++
				}
				if test.second == "" && holders[""] == 0 || test.second != "" && (holders["shop/test"] == 0 || holders[test.second+"/test"] == 0) {
					t.Errorf("ranges by holder: %v", holders)
				}
			})
		})
	}
}
