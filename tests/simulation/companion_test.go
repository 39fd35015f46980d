package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"halley/tests/history"
	"halley/trigger"
)

// companion is a second function of all hosts of nearly every run, on the same container: the two
// share their reads. Its handler succeeds at once. It has leases of its own, which no
// operator and no fault of the world changes; its requests have faults as all others
// have. The history tells nothing of it.
const companion = "companion"

// sharedReads is the promise to both functions: each gets every change, in order, whatever
// happens to the reads of the other one.
const sharedReads history.Rule = "shared reads"

// companionRecord is what the companion has handled. The world's lock guards it.
type companionRecord struct {
	newest   map[string]int64 // Seq by document
	last     map[string]int64 // Seq by owner of a range and key
	leases   map[string]bool  // tokens
	handled  int
	problems []string
}

func newCompanionRecord() companionRecord {
	return companionRecord{newest: map[string]int64{}, last: map[string]int64{}, leases: map[string]bool{}}
}

// keepCompanion remembers the leases of the companion. The resource is that of a write.
func (w *world) keepCompanion(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if token, isLease := leaseToken(resource); isLease {
		w.second.leases[token] = !strings.HasPrefix(resource, http.MethodDelete)
	}
}

// companionFunction returns the second function of a host.
func (p *process) companionFunction(f trigger.Function) trigger.Function {
	d, poll := p.w.swarm.dice(companion), p.w.swarm.hostOptions("", nil).FeedPollDelay
	return trigger.Function{
		FeedSource:  trigger.FeedSource{Name: companion, Container: f.Container, StartFrom: trigger.FromBeginning()},
		BatchPolicy: trigger.BatchPolicy{BatchWindow: 1, PageItems: f.PageItems, MaxItemsPerInvocation: f.MaxItemsPerInvocation},
		Handler:     p.accompany, ReuseBuffers: d.chance("reuse buffers", 0.5),
		RateLimits: trigger.RateLimits{
			ReadRequestUnits: f.ReadRequestUnits, // a history does not show for which function a host reads
			FeedPollDelay:    one(d, "poll", poll, poll, poll/3) + 17,
		},
	}
}

// accompany is the companion's handler.
func (p *process) accompany(_ context.Context, b trigger.Batch) error {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.killed {
		return errCut
	}
	r := &w.second
	for _, change := range b.Changes {
		var d document
		err := json.Unmarshal(change.Document, &d)
		if err == nil && d.Noise {
			continue
		}
		owner := fmt.Sprintf("%s of range %s, epoch %d: key %s", p.name, b.Range.ID, b.Epoch, d.Key)
		switch {
		case err != nil || !strings.HasPrefix(d.ID, d.Key+"-"):
			r.problems = append(r.problems, fmt.Sprintf("%s gets %q", owner, change.Document))
		case d.Seq <= r.last[owner]:
			r.problems = append(r.problems, fmt.Sprintf("%s: change %d comes after %d", owner, d.Seq, r.last[owner]))
		}
		r.last[owner], r.newest[d.ID] = d.Seq, max(r.newest[d.ID], d.Seq)
		r.handled++
	}
	return nil
}

// unaccompanied returns the documents whose newest version the companion has not handled.
func (w *world) unaccompanied() (missing []string) {
	if !w.swarm.companion {
		return nil
	}
	written := map[string]int64{}
	for _, e := range w.history {
		if e.Kind == history.Write {
			written[e.ID] = e.Seq
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(written)) {
		if w.second.newest[id] < written[id] {
			missing = append(missing, id)
		}
	}
	return missing
}

// judgeCompanion adds the companion's violations to those of the run.
func (w *world) judgeCompanion() {
	for _, id := range w.unaccompanied() {
		w.violations = append(w.violations, history.Violation{Rule: sharedReads, Text: "the newest version of " + id + " did not reach the second function"})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range w.second.problems {
		w.violations = append(w.violations, history.Violation{Rule: sharedReads, Text: text})
	}
	w.figures.Accompanied = w.second.handled
}
