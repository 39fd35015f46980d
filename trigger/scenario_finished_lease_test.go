package trigger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"halley/trigger/internal/finished"
	"halley/trigger/leases"
)

// markFinished writes into a lease that the changes up to the newest one are finished,
// except for those of one key, and returns the lease as stored.
func (w *world) markFinished(token string, change ...func(*finished.Value, *leaseDocument)) *leaseDocument {
	w.t.Helper()
	l := w.leaseDocuments()[token]
	reached := lsnOf(w.t, w.newestContinuation())
	v := finished.Value{
		Binding: finished.Binding{Continuation: l.continuation, Epoch: l.epoch(), Mode: l.mode},
		Reached: reached, Marks: map[uint64]int64{7: reached},
	}
	for _, c := range change {
		c(&v, l)
	}
	l.properties[finished.Property] = v.Encode()
	w.replaceLease(l)
	return l
}

// retryIn has the first retry due after a time.
func (w *world) retryIn(d time.Duration) func(*finished.Value, *leaseDocument) {
	return func(v *finished.Value, _ *leaseDocument) { v.RetryAt = w.leases.Client().Now().Add(d).Unix() }
}

// leaseWrites records the lease documents that are created or replaced from now on.
func (w *world) leaseWrites() (written func() []*leaseDocument) {
	var documents []*leaseDocument
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onRequest = func(r *http.Request) {
		isReplace := r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/colls/leases/docs/")
		if !isReplace && !isLeaseCreate(r) {
			return
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte("LeaseToken")) {
			return
		}
		l := parseLeaseDocument(w.t, body)
		w.mu.Lock()
		defer w.mu.Unlock()
		documents = append(documents, l)
	}
	return func() []*leaseDocument {
		w.mu.Lock()
		defer w.mu.Unlock()
		return documents
	}
}

// checkBound checks that a lease holds a value of one mark that belongs to it, or none.
func checkBound(t *testing.T, l *leaseDocument, want bool) {
	t.Helper()
	property := l.properties[finished.Property]
	v, ok := finished.Parse(property)
	switch {
	case !want && property != "":
		t.Errorf("lease %s holds %s", l.token, property)
	case want && (!ok || v.Epoch != l.epoch() || v.Continuation != l.continuation || len(v.Marks) != 1):
		t.Errorf("lease %s at %s in epoch %d holds %q", l.token, l.continuation, l.epoch(), property)
	}
}

// drainedWorld has one range with a position and ten changes behind it.
func drainedWorld(t *testing.T, test func(t *testing.T, w *world)) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("seen", 5)
		_, err := w.host("x", w.recorder("x")).Drain(t.Context())
		must(t, err)
		w.writeMany("doc", 10)
		test(t, w)
	})
}

// The write of an acquisition binds the value to the new epoch, and removes a void one.
func TestAcquisitionBindsFinishedChanges(t *testing.T) {
	dead := func(_ *finished.Value, l *leaseDocument) {
		l.owner, l.properties[incarnationProperty] = "dead", "dead/1"
	}
	tests := map[string]struct {
		change func(*finished.Value, *leaseDocument)
		bound  bool
	}{
		"released":             {func(*finished.Value, *leaseDocument) {}, true},
		"owner died":           {dead, true},
		"another continuation": {func(v *finished.Value, _ *leaseDocument) { v.Continuation = `"1"` }, false},
		"another epoch":        {func(v *finished.Value, _ *leaseDocument) { v.Epoch-- }, false},
		".NET owner died":      {func(_ *finished.Value, l *leaseDocument) { l.owner = "dotnet" }, false},
		".NET owner took it from a Halley owner": {func(v *finished.Value, l *leaseDocument) {
			dead(v, l)
			l.owner = "dotnet"
		}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			drainedWorld(t, func(t *testing.T, w *world) {
				former := w.markFinished("0", test.change)
				time.Sleep(2 * time.Minute) // a dead owner's lease expires
				written := w.leaseWrites()
				_, err := w.host("a", w.recorder("a")).Drain(t.Context())
				must(t, err)
				if acquired := written()[0]; acquired.owner != "a" || acquired.epoch() <= former.epoch() {
					t.Errorf("the first write is of owner %q in epoch %d", acquired.owner, acquired.epoch())
				} else {
					checkBound(t, acquired, test.bound)
				}
			})
		})
	}
}

// A .NET host acquires a lease, delivers older versions again and dies, or gives the lease
// back, at the position at which it began. The next owner passes over nothing.
func TestDotNetOwnerMakesFinishedChangesVoid(t *testing.T) {
	for _, dies := range []bool{false, true} {
		drainedWorld(t, func(t *testing.T, w *world) {
			w.markFinished("0", func(_ *finished.Value, l *leaseDocument) {
				l.owner, l.properties[incarnationProperty] = "dead", "dead/1"
			})
			time.Sleep(2 * time.Minute)
			written := w.leaseWrites()
			c := w.control(nil)
			plan, err := c.PlanRelease(t.Context())
			w.apply(c, plan, err)
			checkBound(t, written()[0], true)

			l, newest := w.leaseDocuments()["0"], w.newestContinuation()
			home := l.continuation
			for n, position := range []string{home, newest, home} {
				l.continuation, l.owner = position, "dotnet"
				if n == 2 && !dies {
					l.owner = ""
				}
				l.body["timestamp"] = time.Now().UTC().Add(time.Duration(n)*time.Second + time.Microsecond).Format("2006-01-02T15:04:05.0000000Z")
				w.replaceLease(l)
			}
			if l.properties[finished.Property] == "" {
				t.Error("the .NET owner has removed the value")
			}
			time.Sleep(2 * time.Minute)
			written = w.leaseWrites()
			_, err = w.host("a", w.recorder("a")).Drain(t.Context())
			must(t, err)
			checkBound(t, written()[0], false)
			w.checkComplete(0)
		})
	}
}

// An operator who frees a lease raises its epoch, and the value with it.
func TestReleaseByOperatorBindsFinishedChanges(t *testing.T) {
	for _, force := range []bool{false, true} {
		drainedWorld(t, func(t *testing.T, w *world) {
			former := w.markFinished("0", func(_ *finished.Value, l *leaseDocument) {
				l.owner, l.properties[incarnationProperty], l.properties["halley.protocol"] = "busy", "busy/1", "2"
			})
			if !force {
				time.Sleep(2 * time.Minute) // the lease expires
			}
			written := w.leaseWrites()
			c := w.control(&leases.ControlOptions{Force: force})
			plan, err := c.PlanRelease(t.Context())
			w.apply(c, plan, err)
			for _, l := range written() {
				checkBound(t, l, true)
			}
			if now := w.leaseDocuments()["0"]; now.owner != "" || now.epoch() <= former.epoch() {
				t.Errorf("force %v: owner %q, epoch %d after %d", force, now.owner, now.epoch(), former.epoch())
			}
		})
	}
}

// Whoever sets a position wants everything after it again: the value is removed, also if
// the position stays the same, and if the value was void and would become valid.
func TestSetPositionRemovesFinishedChanges(t *testing.T) {
	tests := map[string]struct {
		move     int64 // of the lease by another library, before the plan
		seek     int64 // from the position that the value belongs to
		repeated int64
		stays    bool
	}{
		"same position":                     {repeated: 10, stays: true},
		"position before":                   {seek: -2, repeated: 12},
		"position between":                  {seek: 4, repeated: 6},
		"same position of a moved lease":    {move: 3, seek: 3, stays: true},
		"back to where the value was valid": {move: 3, repeated: 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			drainedWorld(t, func(t *testing.T, w *world) {
				c := w.control(nil)
				position := lsnOf(t, w.leaseDocuments()["0"].continuation)
				token := func(lsn int64) string { return fmt.Sprintf("%q", fmt.Sprint(lsn)) }
				w.markFinished("0", func(_ *finished.Value, l *leaseDocument) { l.continuation = token(position + test.move) })
				former := w.leaseDocuments()["0"]
				plan, err := c.PlanSeek(t.Context(), FromContinuation(token(position+test.seek)), "0")
				must(t, err)
				s := plan.Steps[0]
				if s.Nothing || s.Repeated != test.repeated || (s.Reason != "") != test.stays || !s.Known {
					t.Errorf("step %+v", s)
				}
				w.apply(c, plan, nil)
				now := w.leaseDocuments()["0"]
				checkBound(t, now, false)
				if now.continuation != token(position+test.seek) || now.epoch() != former.epoch()+1 {
					t.Errorf("position %s, epoch %d after %d", now.continuation, now.epoch(), former.epoch())
				}
				if replanned, err := c.PlanSeek(t.Context(), FromContinuation(now.continuation), "0"); err != nil || !replanned.Steps[0].Nothing || replanned.Steps[0].Reason != "" {
					t.Errorf("the second plan is %+v: %v", replanned, err)
				}
			})
		})
	}
}

// An export has no value, and an import removes the one that a lease has by then.
func TestImportRemovesFinishedChanges(t *testing.T) {
	drainedWorld(t, func(t *testing.T, w *world) {
		c := w.control(nil)
		w.markFinished("0")
		export, err := c.Export(t.Context())
		must(t, err)
		var stored struct{ Properties map[string]string }
		must(t, json.Unmarshal(export.Leases[0].Document, &stored))
		if stored.Properties[epochProperty] == "" || stored.Properties[finished.Property] != "" {
			t.Errorf("the export has the properties %v", stored.Properties)
		}
		plan, err := c.PlanImport(t.Context(), export)
		w.apply(c, plan, err)
		if s := plan.Steps[0]; s.Nothing || s.Reason == "" || s.From != s.To {
			t.Errorf("step %+v", s)
		}
		checkBound(t, w.leaseDocuments()["0"], false)
	})
}

func TestResetRemovesFinishedChanges(t *testing.T) {
	drainedWorld(t, func(t *testing.T, w *world) {
		w.markFinished("0")
		written := w.leaseWrites()
		_, err := w.host("a", w.recorder("a"), func(f *Function, _ *Options) { f.ResetLeases = true }).Drain(t.Context())
		must(t, err)
		for _, l := range written() {
			checkBound(t, l, false)
		}
		if n := w.deliveryCount(); n != 20 {
			t.Errorf("%d delivered, want 5, and then 15", n)
		}
	})
}

// The children of a split inherit the value with their own epoch. In a merged range LSNs
// do not tell the order, so its leases hold none.
func TestChildrenInheritFinishedChanges(t *testing.T) {
	created := func(t *testing.T, w *world) (leases []*leaseDocument) {
		t.Helper()
		known := w.leaseDocuments()
		written := w.leaseWrites()
		_, err := w.host("a", w.recorder("a")).Drain(t.Context())
		must(t, err)
		for _, l := range written() {
			if known[l.token] == nil {
				known[l.token] = l
				leases = append(leases, l)
			}
		}
		if len(leases) != 2 {
			t.Fatalf("%d leases created", len(leases))
		}
		return leases
	}
	t.Run("split", func(t *testing.T) {
		drainedWorld(t, func(t *testing.T, w *world) {
			parent := w.markFinished("0")
			_, err := w.account.Split("db", "items", "0")
			must(t, err)
			time.Sleep(time.Minute)
			var tokens []string
			for _, child := range created(t, w) {
				checkBound(t, child, true)
				if child.epoch() <= parent.epoch()+1 || child.continuation != parent.continuation {
					t.Errorf("child %s at %s in epoch %d", child.token, child.continuation, child.epoch())
				}
				tokens = append(tokens, child.token)
			}
			if strings.Contains(fmt.Sprint(tokens), "-") {
				t.Errorf("children by keys: %v", tokens)
			}
		})
	})
	t.Run("merge", func(t *testing.T) {
		inWorld(t, 2, func(t *testing.T, w *world) {
			w.writeMany("seen", 20)
			_, err := w.host("x", w.recorder("x")).Drain(t.Context())
			must(t, err)
			for _, token := range []string{"0", "1"} {
				w.markFinished(token)
			}
			_, err = w.account.Merge("db", "items", "0", "1")
			must(t, err)
			time.Sleep(time.Minute)
			for _, l := range created(t, w) {
				if checkBound(t, l, false); !strings.Contains(l.token, "-") {
					t.Errorf("lease %s after a merge", l.token)
				}
				l = w.leaseDocuments()[l.token] // a value that was put there by hand does not survive the next acquisition
				l.properties[finished.Property] = finished.Value{Binding: finished.Binding{Continuation: l.continuation, Epoch: l.epoch()}, Reached: 99}.Encode()
				w.replaceLease(l)
			}
			w.writeMany("more", 20)
			written := w.leaseWrites()
			_, err = w.host("a", w.recorder("a")).Drain(t.Context())
			must(t, err)
			for _, l := range written() {
				checkBound(t, l, false)
			}
		})
	})
}
