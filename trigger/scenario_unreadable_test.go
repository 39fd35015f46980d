package trigger

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/stall"
)

// Edits of a lease by hand. Each leaves the range with an owner that reads it, or with a
// problem that names the lease.
var leaseEdits = map[string]func(document map[string]any){
	"owner is a number":         func(d map[string]any) { d["Owner"] = 7 },
	"continuation is an object": func(d map[string]any) { d["ContinuationToken"] = map[string]any{} },
	"continuation is missing":   func(d map[string]any) { delete(d, "ContinuationToken") },
	"token is missing":          func(d map[string]any) { delete(d, "LeaseToken") },
	"token of another range":    func(d map[string]any) { d["LeaseToken"] = "1" },
	"token is a number":         func(d map[string]any) { d["LeaseToken"] = 0 },
	"version is text":           func(d map[string]any) { d["version"] = "0" },
	"unknown version":           func(d map[string]any) { d["version"] = 9 },
	"range is inverted": func(d map[string]any) {
		d["FeedRange"] = map[string]any{"Range": map[string]any{"min": "FF", "max": ""}}
	},
	"range is text":               func(d map[string]any) { d["FeedRange"] = "all" },
	"properties are missing":      func(d map[string]any) { delete(d, "properties") },
	"properties are a list":       func(d map[string]any) { d["properties"] = []int{1} },
	"a property is a number":      func(d map[string]any) { setLeaseProperty(d, "halley.epoch", 5) },
	"epoch is text":               func(d map[string]any) { setLeaseProperty(d, "halley.epoch", "many") },
	"epoch is negative":           func(d map[string]any) { setLeaseProperty(d, "halley.epoch", "-5") },
	"retries are not JSON":        func(d map[string]any) { setLeaseProperty(d, "halley.retries", "{") },
	"status is not JSON":          func(d map[string]any) { setLeaseProperty(d, "halley.status", "{") },
	"expiration is not a time":    func(d map[string]any) { setLeaseProperty(d, "halley.expiration", "soon") },
	"mode is a number":            func(d map[string]any) { d["Mode"] = 1 },
	"timestamp is a number":       func(d map[string]any) { d["timestamp"] = 1 },
	"deaths are not a number":     func(d map[string]any) { setLeaseProperty(d, "halley.deaths", "x") },
	"deaths are the largest ones": func(d map[string]any) { setLeaseProperty(d, "halley.deaths", "9223372036854775807") },
}

func TestUnreadableLeaseIsAProblem(t *testing.T) {
	for name, edit := range leaseEdits {
		inWorld(t, 2, func(t *testing.T, w *world) {
			logger, logged := recordLog(slog.LevelInfo)
			h := w.host("a", w.recorder("a"))
			_, err := h.Drain(t.Context())
			must(t, err)
			w.editLease("0", func(d map[string]any) { setLeaseProperty(d, "halley.epoch", "5") }) // it was acquired
			document := map[string]any{}
			w.editLease("0", func(d map[string]any) {
				maps.Copy(document, d)
				document["properties"] = maps.Clone(d["properties"].(map[string]any))
				edit(d)
			})
			h = w.host("b", w.recorder("b"), func(_ *Function, o *Options) { o.Logger = logger })
			stop := w.startHost(h)
			w.writeMany("doc", 40)
			time.Sleep(2 * time.Minute)
			problem, read := w.unreadableProblem(h), w.deliveryCount() == 40
			id := w.leasePrefix() + "..0"
			switch {
			case read && problem != nil:
				t.Errorf("%s: the range is read, and has the problem %+v", name, problem)
			case !read && (problem == nil || !strings.Contains(problem.Problem, id) || problem.Stalls[0].Advice() == ""):
				t.Errorf("%s: the range is not read, and its problem is %+v", name, problem)
			case !read && (w.deliveryCount() == 0 || logged.FilterMessageSnippet("not readable").Len() != 1):
				t.Errorf("%s: %d delivered, logged %d times", name, w.deliveryCount(), logged.FilterMessageSnippet("not readable").Len())
			}
			if !read {
				summary, err := w.host("c", w.recorder("c"), withoutLogger).Drain(t.Context())
				if err != nil || summary.Behind != 1 || !strings.Contains(summary.Problem, id) {
					t.Errorf("%s: drain %+v, %v", name, summary, err)
				}
				w.editLease("0", func(d map[string]any) {
					clear(d)
					maps.Copy(d, document)
				})
				time.Sleep(90 * time.Second)
				if problem := w.unreadableProblem(h); problem != nil {
					t.Errorf("%s: after the repair %+v", name, problem)
				}
				if n := logged.FilterMessageSnippet("repaired or deleted").Len(); n != 1 {
					t.Errorf("%s: the log tells %d times of the repair", name, n)
				}
				w.checkComplete(40)
			}
			stop()
		})
	}
}

// The problem of a document that is deleted ends, too: hosts create the lease again.
func TestDeletedUnreadableLeaseIsCreatedAgain(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		_, err := w.host("a", w.recorder("a")).Drain(t.Context())
		must(t, err)
		w.editLease("0", leaseEdits["owner is a number"])
		h := w.host("b", w.recorder("b"), withoutLogger)
		stop := w.startHost(h)
		w.writeMany("doc", 40)
		time.Sleep(time.Minute)
		if w.unreadableProblem(h) == nil {
			t.Error("no problem")
		}
		id := w.leasePrefix() + "..0"
		_, err = w.leases.Delete(t.Context(), id, cosmos.NewPartitionKey(id), "")
		must(t, err)
		time.Sleep(12 * time.Minute)
		if problem := w.unreadableProblem(h); problem != nil {
			t.Errorf("after the deletion %+v", problem)
		}
		stop()
		w.checkComplete(40)
	})
}

// unreadableProblem returns the range of a host whose lease cannot be read, or nil.
func (w *world) unreadableProblem(h *Host) *RangeStatus {
	ranges := h.Status().Functions[0].Ranges
	i := slices.IndexFunc(ranges, func(r RangeStatus) bool {
		return len(r.Stalls) > 0 && r.Stalls[0].Kind == stall.Unreadable
	})
	if i < 0 {
		return nil
	}
	return &ranges[i]
}

// The owner of a lease that becomes unreadable stops, and says why. When the document is
// repaired and has expired, a host acquires it again.
func TestHeldLeaseThatBecomesUnreadableIsAProblem(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"), withoutLogger)
		stop := w.startHost(h)
		time.Sleep(time.Minute)
		var document map[string]any
		w.editLease("0", func(d map[string]any) { document = maps.Clone(d); d["version"] = "0" })
		time.Sleep(2 * time.Minute)
		w.writeMany("doc", 5)
		time.Sleep(time.Minute)
		if r := w.unreadableProblem(h); r == nil || r.Range != "0" || w.deliveryCount() > 0 {
			t.Errorf("%d delivered, problem %+v", w.deliveryCount(), r)
		}
		w.editLease("0", func(d map[string]any) { maps.Copy(d, document) })
		time.Sleep(90 * time.Second)
		if r := w.unreadableProblem(h); r != nil {
			t.Errorf("after the repair %+v", r)
		}
		stop()
		w.checkComplete(0)
	})
}

// After a stop the status does not name the document: this host lists none.
func TestStatusAfterStopNamesNoUnreadableLease(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		_, err := w.host("a", w.recorder("a")).Drain(t.Context())
		must(t, err)
		w.editLease("0", leaseEdits["owner is a number"])
		h := w.host("b", w.recorder("b"), withoutLogger)
		stop := w.startHost(h)
		time.Sleep(time.Minute)
		if w.unreadableProblem(h) == nil {
			t.Error("no problem while the host runs")
		}
		stop()
		if f := h.Status().Functions[0]; len(f.Ranges) > 0 || f.Problem != "" {
			t.Errorf("after the stop: %+v", f)
		}
	})
}
