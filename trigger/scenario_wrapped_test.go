package trigger

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// A handler adds words to the errors of the verbs: they mean the same.
func TestWrappedVerdictsAreRead(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 6)
		var sizes []int
		h := w.host("a", func(_ context.Context, b Batch) error {
			sizes = append(sizes, len(b.Changes))
			if b.Attempt == 1 {
				return fmt.Errorf("write orders: %w", Failed(errors.New("refused"), b.Changes[1], b.Changes[4]))
			}
			return nil
		}, withoutBisection)
		summary, err := h.Drain(t.Context())
		must(t, err)
		if fmt.Sprint(sizes) != "[6 2]" || summary.Behind != 0 {
			t.Errorf("calls with %v changes, summary %+v", sizes, summary)
		}
	})
}
