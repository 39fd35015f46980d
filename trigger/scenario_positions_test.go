package trigger

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"halley/trigger/internal/feed"
	"halley/trigger/leases"

	"halley/trigger/emulator"
)

// A position that the feed does not have is refused before it is written, by a seek and by an
// import, and found in a lease that has it.
func TestPositionsAreCheckedAgainstTheFeed(t *testing.T) {
	for _, test := range []struct {
		position, says string
		lenient        bool // the service answers 304 to a position beyond the end; the embedded account refuses it
	}{
		{`"500000"`, "cannot be read after the position", false},
		{`"500000"`, "beyond the end of the feed, which is at", true},
		{`"garbage"`, "cannot be read after the position", false},
	} {
		t.Run(fmt.Sprint(test.position, test.lenient), func(t *testing.T) {
			inWorldOf(t, emulator.Options{Manners: emulator.Manners{RefuseAhead: true}}, 1, func(t *testing.T, w *world) {
				w.writeMany("doc", 5)
				_, err := w.host("a", w.recorder("a")).Drain(t.Context())
				must(t, err)
				newest := w.newestContinuation()
				client := w.clientOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
					if test.lenient && isFeedRead(r) && r.Header.Get("If-None-Match") == test.position {
						r.Header.Set("If-None-Match", newest)
					}
					return nil, nil, false
				}})
				c, err := leases.NewControl(client.Container("db", "leases"), leases.Source{Name: "test", Container: client.Container("db", "items")}, nil)
				must(t, err)
				isRefused := func(plan leases.Plan, err error) {
					t.Helper()
					must(t, err)
					if err := plan.Refused(); err == nil || !strings.Contains(err.Error(), test.says) || test.lenient != errors.Is(err, feed.ErrBeyondEnd) {
						t.Errorf("refused: %v", err)
					}
				}
				findings := func(want int) {
					t.Helper()
					found, err := c.Verify(t.Context())
					if must(t, err); len(found) != want || want > 0 && !(strings.Contains(found[0].String(), test.says) && strings.Contains(found[0].String(), "seek the range")) {
						t.Errorf("findings %v, want %d", found, want)
					}
				}
				isRefused(c.PlanSeek(t.Context(), FromContinuation(test.position)))
				export, err := c.Export(t.Context())
				must(t, err)
				export.Leases[0].Continuation = test.position
				isRefused(c.PlanImport(t.Context(), export))
				findings(0)
				w.editLease("0", func(document map[string]any) { document["ContinuationToken"] = test.position })
				findings(1)
				to, err := leases.ParseSeek(newest)
				must(t, err)
				plan, err := c.PlanSeek(t.Context(), to)
				w.apply(c, plan, err)
				findings(0)
			})
		})
	}
}
