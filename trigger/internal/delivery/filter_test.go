package delivery

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
)

// savedPositions are the positions that a progress passes on. Those that are to be saved
// have a "!".
type savedPositions []string

func (s *savedPositions) advance(position string, saveAt time.Time) {
	mark := ""
	if !saveAt.IsZero() {
		mark = "!"
	}
	*s = append(*s, strings.Trim(position, `"`)+mark)
}

// addWhole takes in a page as one part.
func (p *progress) addWhole(page *feed.Page, passed []int) []Item {
	rest := pageRest{pageBytes: pageBytes{page: page}, areNamed: p.namesPositions(page)}
	items, _ := p.addPart(rest.cut(len(page.Items)), passed)
	return items
}

// addPage adds a page of changes with these LSNs. A negative LSN is that of a change
// which does not pass the filter.
func addPage(p *progress, lsns ...int64) []*Item {
	page, passed := &feed.Page{}, []int(nil)
	for i, lsn := range lsns {
		if lsn > 0 {
			passed = append(passed, i)
		}
		page.Items = append(page.Items, cosmos.Item{LSN: max(lsn, -lsn)})
		page.Continuation = feed.QuotedLSN(max(lsn, -lsn))
	}
	items := p.addWhole(page, passed)
	all := make([]*Item, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	p.finishItems(nil)
	return all
}

// The position moves past filtered changes as far as everything before is handled, and
// never into a transaction. Only handled changes ask for a write.
func TestPositionPassesFilteredChanges(t *testing.T) {
	var saved savedPositions
	p := newProgress(Config{}, saved.advance)
	first := addPage(p, -1, -2, 3, -4, -5, 5, 6, -7)
	addPage(p, -8, -9)
	last := addPage(p, -10, 11, -12)
	addPage(p, -13)
	p.finishItems([]*Item{first[1]})
	p.finishItems([]*Item{first[0]}) // up to the transaction of 5, of which all is finished as well
	p.finishItems([]*Item{first[2]})
	p.finishItems(last)
	addPage(p, -14, -15)
	if got, want := fmt.Sprint(saved), "[2 5! 10! 13! 15]"; got != want {
		t.Errorf("positions %s, want %s", got, want)
	}
}

func TestPositionStaysBeforeTransactionThatIsPartlyFiltered(t *testing.T) {
	var saved savedPositions
	p := newProgress(Config{}, saved.advance)
	items := addPage(p, 1, -2, -3, 3, -3, 4)
	p.finishItems(items[:1])
	p.finishItems(items[1:])
	if got, want := fmt.Sprint(saved), "[2! 4!]"; got != want {
		t.Errorf("positions %s, want %s", got, want)
	}
}

// Filtered changes do not ask for a write, however checkpoints are made. If they are
// manual, the position does not pass a change that was handled before its last request.
func TestFilteredChangesAskForNoWrite(t *testing.T) {
	for _, tt := range []struct {
		setting Checkpoint
		want    string
		request int64 // of the last call
	}{
		{Checkpoint{}, "[2 4 5! 6 8 9! 10]", 0},
		{Checkpoint{Every: 2}, "[2 4 5 6 8 9! 10]", 0},
		{Checkpoint{Interval: time.Nanosecond}, "[2 4 5! 6 8 9! 10]", 0},
		{Checkpoint{Manual: true}, "[2 4]", 0},
		{Checkpoint{Manual: true}, "[2 4]", 1},
		{Checkpoint{Manual: true}, "[2 4 9! 10]", 2},
	} {
		var saved savedPositions
		p := newProgress(Config{Checkpoint: tt.setting}, saved.advance)
		addPage(p, -1, -2)
		addPage(p, -3, -4)
		items := addPage(p, 5)
		p.answerCall(items, Verdict{Answered: 1})
		p.finishItems(items)
		addPage(p, -6)
		addPage(p, -7, -8)
		items = addPage(p, 9)
		p.answerCall(items, Verdict{Answered: 2, Requested: tt.request})
		p.finishItems(items)
		addPage(p, -10)
		if got := fmt.Sprint(saved); got != tt.want {
			t.Errorf("%+v: positions %s, want %s", tt.setting, got, tt.want)
		}
	}
}

// A later version of the document that waits for its retry does not pass the filter. The
// feed is as if it was not there: the earlier one is retried, and the range continues.
func TestFilteredChangeOfWaitingKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRange(t)
		r.config.Passes = passes
		r.config.MaxItemsPerInvocation = 1
		r.handle = func(items []*Item, attempt int) error {
			if items[0].Seq == 1 && attempt < 3 {
				return errBad
			}
			return nil
		}
		keys := []string{"k", filteredKey, "other", filteredKey, "k", filteredKey}
		if err := r.run(changes(2, keys...)); err != nil {
			t.Fatal(err)
		}
		r.complete(len(keys))
		if r.filtered != 3 || len(r.dead) > 0 {
			t.Errorf("%d filtered, dead letters %v", r.filtered, r.deadIDs)
		}
	})
}

// A history of a change that the feed does not show any more is dropped, even if all
// changes after it are filtered.
func TestRetryRecordIsDroppedBehindFilteredChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := feed.Change{Item: cosmos.Item{LSN: 1, Document: []byte(`{"id":"1"}`)}}
		r := newTestRange(t)
		r.config.Passes = passes
		r.config.SavedRetries = fmt.Sprintf(`[{"first":%q,"last":%[1]q,"size":1,"attempts":2}]`, gone.Name(r.config.KeyPaths))
		d := r.delivery()
		if d.RetryProperty() == "" {
			t.Fatal("the history was not loaded")
		}
		if err := r.deliver(d, changes(3, filteredKey, filteredKey, filteredKey)); err != nil {
			t.Fatal(err)
		}
		if property := d.RetryProperty(); property != "" || r.position != `"3"` {
			t.Errorf("history %s at %s", property, r.position)
		}
	})
}

// While a change of a merged range is being retried, the reader is at most MaxAhead changes
// ahead of it, and ten times as many that are filtered. Their pages are not kept.
func TestFilteredChangesCountATenthOfMaxAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRange(t)
		r.config.Passes = passes
		r.config.MaxAhead, r.config.MergedRange = 20, true
		keys := []string{"k"}
		for range 1000 {
			keys = append(keys, filteredKey)
		}
		readAhead, pages, held := 0, 0, 0
		d := r.delivery()
		r.handle = func(_ []*Item, attempt int) error {
			if attempt == 3 {
				readAhead, pages, held = r.filtered, r.released, len(d.progress.openPages)
				return nil
			}
			return errBad
		}
		if err := r.deliver(d, changes(10, keys...)); err != nil {
			t.Fatal(err)
		}
		r.complete(len(keys))
		if readAhead < 190 || readAhead >= 210 || pages < readAhead/10 || held != 0 {
			t.Errorf("%d filtered changes read during the retries, %d pages released, %d kept", readAhead, pages, held)
		}
	})
}

func TestFilteredPagesDoNotAllocatePerChange(t *testing.T) {
	keys := make([]string, 500)
	for i := range keys {
		keys[i] = filteredKey
	}
	r := newTestRange(t)
	r.config.Passes = passes
	d := r.delivery()
	page := changes(len(keys), keys...)[0]
	if n := testing.AllocsPerRun(100, func() { d.receivePage(page); d.takePart(len(keys)) }); n > 5 {
		t.Errorf("%v allocations for a page of %d filtered changes", n, len(keys))
	}
	if r.filtered < len(keys) {
		t.Errorf("%d filtered", r.filtered)
	}
}
