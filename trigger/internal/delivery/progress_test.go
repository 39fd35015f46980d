package delivery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"halley/trigger/internal/feed"
)

// A replica that lags may answer a read without changes at an earlier position.
func TestPositionDoesNotMoveBack(t *testing.T) {
	var saved []string
	p := newProgress(Config{}, func(position string, _ time.Time) { saved = append(saved, position) })
	for _, continuation := range []string{`"9"`, `"7"`, `"10"`} {
		p.addWhole(&feed.Page{NotModified: true, Continuation: continuation}, nil)
		p.finishItems(nil)
	}
	if got := fmt.Sprint(saved); got != `["9" "10"]` {
		t.Errorf("positions %s", got)
	}
}

// A handler makes many calls, and asks for a checkpoint rarely: the positions between are
// few, and a request saves one that it covers.
func TestPositionsThatWaitForRequestsAreFew(t *testing.T) {
	var saved savedPositions
	p := newProgress(Config{Checkpoint: Checkpoint{Manual: true}}, saved.advance)
	const calls = 5000
	for i := range int64(calls) {
		items := addPage(p, i+1)
		p.answerCall(items, Verdict{Answered: i + 1})
		p.finishItems(items)
	}
	if n := len(p.stretches); n > maxStretches || len(saved) > 0 {
		t.Fatalf("%d positions wait, and %v are saved", n, saved)
	}
	for i, requested := range []int64{1, calls - 1, calls + 2} {
		items := addPage(p, calls+1+int64(i))
		p.answerCall(items, Verdict{Requested: requested})
		p.finishItems(items)
		last := int64(0)
		if len(saved) > 0 {
			_, _ = fmt.Sscan(strings.Trim(saved[len(saved)-1], "!"), &last)
		}
		if last >= requested && requested <= calls || last < min(requested-200, calls) {
			t.Errorf("a request of call %d saves %v", requested, saved)
		}
	}
}
