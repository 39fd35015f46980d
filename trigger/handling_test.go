package trigger

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// The attempts of a batch get the same bytes: those of the page are not used again
// before the batch is handled.
func TestEachAttemptGetsTheSameBytes(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			w.writeMany("doc", 3)
			var seen []string
			stop := w.startHost(w.host("a", func(_ context.Context, b Batch) error {
				for _, c := range b.Changes {
					if strings.HasPrefix(c.ID(), "doc") {
						seen = append(seen, string(c.Document))
					}
				}
				if b.Attempt < 3 && strings.HasPrefix(b.Changes[0].ID(), "doc") {
					return errors.New("again")
				}
				return nil
			}, withoutBisection, func(f *Function, _ *Options) { f.ReuseBuffers = reuse }))
			time.Sleep(time.Second) // the first attempt has failed
			w.writeMany("more", 30)
			time.Sleep(time.Minute)
			stop()
			if len(seen) != 9 || !slices.Equal(seen[:3], seen[3:6]) || !slices.Equal(seen[:3], seen[6:]) || !strings.Contains(seen[0], "doc0") {
				t.Errorf("attempts saw %q", seen)
			}
		})
	}
}
