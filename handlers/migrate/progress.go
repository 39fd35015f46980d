package migrate

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger"
)

// progressInterval is the time between two log lines.
const progressInterval = 10 * time.Second

// Progress counts the work of a process since its start.
type Progress struct {
	Copied       int64   // documents that were written
	Buried       int64   // copies that were replaced by tombstones: of deletes and moves
	Stale        int64   // changes for which the target held a newer position
	RequestUnits float64 // spent on the target
	Throttled    int     // requests that the target asked to repeat later
}

// progress logs the counters now and then.
type progress struct {
	log    *zap.Logger
	budget *budget

	mu   sync.Mutex // guards the fields below
	all  Progress
	last time.Time // of the last log line
	then Progress  // at that time
}

func newProgress(log *zap.Logger, b *budget) *progress {
	return &progress{log: log, budget: b, last: time.Now()}
}

// Progress returns the counters.
func (m *Migration) Progress() Progress { return m.progress.read() }

func (p *progress) read() Progress {
	units, throttled := p.budget.used()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.all
	all.RequestUnits, all.Throttled = units, throttled
	return all
}

// count counts a write.
func (p *progress) count(a action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case a.kind == createCopy, a.kind == replaceCopy:
		p.all.Copied++
	case a.kind == buryCopy && !a.on.guard.Deleted:
		p.all.Buried++
	}
}

// stale counts a change that had nothing to write.
func (p *progress) stale() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all.Stale++
}

// tell logs the progress if the last line is old. behind is the age of the newest change
// of the batch: how far this range is behind, as far as its handler can see.
func (p *progress) tell(b trigger.Batch) {
	now, all := time.Now(), p.read()
	p.mu.Lock()
	elapsed, previous := now.Sub(p.last), p.then
	due := elapsed >= progressInterval
	if due {
		p.last, p.then = now, all
	}
	p.mu.Unlock()
	if !due {
		return
	}
	p.log.Info("migration progress",
		zap.Int64("copied", all.Copied), zap.Int64("buried", all.Buried), zap.Int64("stale", all.Stale),
		zap.Float64("copiesPerSecond", float64(all.Copied-previous.Copied)/elapsed.Seconds()),
		zap.Float64("requestUnitsPerSecond", (all.RequestUnits-previous.RequestUnits)/elapsed.Seconds()),
		zap.Float64("requestUnits", all.RequestUnits), zap.Int("throttled", all.Throttled),
		zap.String("range", b.Range.ID), zap.Duration("behind", now.Sub(b.Changes[len(b.Changes)-1].Time).Round(time.Second)))
}
