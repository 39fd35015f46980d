package delivery

import (
	"fmt"
	"testing"
	"time"

	"halley/trigger/internal/feed"
)

// A replica that lags may answer a read without changes at an earlier position.
func TestPositionDoesNotMoveBack(t *testing.T) {
	var saved []string
	p := newProgress(Checkpoint{}, func(position string, _ time.Time) { saved = append(saved, position) }, false)
	for _, continuation := range []string{`"9"`, `"7"`, `"10"`} {
		p.addPage(&feed.Page{NotModified: true, Continuation: continuation}, nil)
		p.finishItems(nil)
	}
	if got := fmt.Sprint(saved); got != `["9" "10"]` {
		t.Errorf("positions %s", got)
	}
}
