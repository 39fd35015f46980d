package trigger

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestEachAttemptGetsUnmodifiedBytes(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 3)
		var seen []string
		stop := w.startHost(w.host("a", func(_ context.Context, b Batch) error {
			seen = append(seen, string(b.Changes[0].Document))
			clear(b.Changes[0].Document)
			if b.Attempt < 3 {
				return errors.New("again")
			}
			return nil
		}, withoutBisection))
		time.Sleep(time.Minute)
		stop()
		if len(seen) != 3 || seen[0] != seen[1] || seen[1] != seen[2] || !strings.Contains(seen[0], "doc0") {
			t.Errorf("attempts saw %q", seen)
		}
	})
}
