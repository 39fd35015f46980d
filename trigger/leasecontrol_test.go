package trigger

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestLeaseControlNeedsContainersAndName(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		good := Function{FeedSource: FeedSource{Name: "test", Container: w.items}}
		for want, control := range map[string]func() (*LeaseControl, error){
			"lease container": func() (*LeaseControl, error) { return NewLeaseControl(nil, good, nil) },
			"Container": func() (*LeaseControl, error) {
				return NewLeaseControl(w.leases, Function{FeedSource: FeedSource{Name: "test"}}, nil)
			},
			"Name": func() (*LeaseControl, error) {
				return NewLeaseControl(w.leases, Function{FeedSource: FeedSource{Container: w.items}}, nil)
			},
		} {
			if _, err := control(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want an error about %s", err, want)
			}
		}
		if _, err := NewLeaseControl(w.leases, good, nil); err != nil {
			t.Error(err)
		}
	})
}

// The list tells owners apart: a host that renews, a dead one, and one that does not know
// pauses.
func TestListTellsKindsOfOwners(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		c := w.control(nil)
		check := func(want OwnerKind) {
			t.Helper()
			list, err := c.List(t.Context())
			must(t, err)
			if len(list) != 1 || list[0].OwnerKind != want || list[0].Range != "0" || list[0].Max != "FF" || list[0].Function != "test" {
				t.Errorf("leases %+v, want an owner of kind %q", list, want)
			}
		}
		_, err := c.Init(t.Context())
		must(t, err)
		check(NoOwnerKind)
		stop := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(time.Minute)
		check(HalleyOwner)
		stop()
		l := w.leaseDocuments()["0"]
		l.owner = "dotnet"
		l.properties = map[string]string{}
		w.replaceLease(l)
		check(OtherOwner)
		time.Sleep(2 * time.Minute)
		check(NoOwnerKind)
	})
}

// An operator who takes the lease of a .NET host is in the lease under the name of the
// options.
func TestOperatorIsNamedInTakenLease(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("doc", "doc")
		l := newLeaseDocument(w.leasePrefix(), "0", "", "FF")
		l.owner = "dotnet"
		w.createLease(l)
		w.createStamp(".info")
		c := w.control(&LeaseControlOptions{Operator: "on-call"})
		plan, err := c.PlanSeek(t.Context(), FromNow())
		must(t, err)
		done := make(chan error, 1)
		go func() { done <- c.Apply(t.Context(), plan) }()
		time.Sleep(17 * time.Second) // the .NET owner renews
		if owner := w.leaseDocuments()["0"].owner; owner != "on-call" {
			t.Errorf("the lease is held by %q", owner)
		}
		must(t, <-done)
	})
}

// Force does not wait for the handler call of a Halley owner, only until the owner has
// noticed.
func TestForcedSeekDoesNotWaitForTheRunningCall(t *testing.T) {
	for force, most := range map[bool]time.Duration{false: 100 * time.Second, true: 40 * time.Second} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			stop := w.startHost(w.host("a", withDelay(90*time.Second, w.recorder("a")), withoutLogger))
			w.write("doc", "doc")
			time.Sleep(20 * time.Second) // the call runs
			c := w.control(&LeaseControlOptions{Force: force})
			began := time.Now()
			plan, err := c.PlanSeek(t.Context(), FromNow())
			w.apply(c, plan, err)
			if took := time.Since(began); took > most || !force && took < 60*time.Second {
				t.Errorf("force %v: the seek took %v", force, took)
			}
			stop()
		})
	}
}

// The target of a seek is a start or a token, and a start is one of three.
func TestStartsAndSeeksAreParsed(t *testing.T) {
	const noon = "2026-01-31T12:00:00Z"
	at, err := time.Parse(time.RFC3339, noon)
	must(t, err)
	for text, want := range map[string]Start{"": FromNow(), "now": FromNow(), "Beginning": FromBeginning(), noon: FromTime(at)} {
		if got, err := ParseStart(text); err != nil || got != want || text != "" && got.String() != strings.ToLower(text) && got.String() != text {
			t.Errorf("start %q is %v: %v", text, got, err)
		}
	}
	for text, want := range map[string]Start{
		"now": FromNow(), "beginning": FromBeginning(), noon: FromTime(at), "1526": FromContinuation(`"1526"`), `"1526"`: FromContinuation(`"1526"`),
	} {
		if got, err := ParseSeek(text); err != nil || got != want {
			t.Errorf("seek to %q is %v: %v", text, got, err)
		}
	}
	if text := FromContinuation(`"1526"`).String(); text != `"1526"` {
		t.Errorf("a continuation is %s", text)
	}
	for _, text := range []string{"yesterday", "2026-01-31"} {
		if _, err := ParseStart(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("start %q: %v", text, err)
		}
	}
	for _, text := range []string{"", "15x"} {
		if _, err := ParseSeek(text); err == nil || !strings.Contains(err.Error(), "a token such as 1526") {
			t.Errorf("seek to %q: %v", text, err)
		}
	}
}

// An export that is damaged is refused before it is planned.
func TestDamagedExportIsRefused(t *testing.T) {
	for raw, want := range map[string]string{
		`{"format":"halley-leases/1","leases":[]}`:              "no leases",
		`{"format":"halley-leases/2","leases":[{"range":"0"}]}`: `format "halley-leases/2"`,
		`{"format":`: "read lease export",
	} {
		if _, err := ReadLeaseExport([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", raw, err, want)
		}
	}
	if e, err := ReadLeaseExport([]byte(`{"format":"halley-leases/1","leases":[{"range":"0"}]}`)); err != nil || len(e.Leases) != 1 {
		t.Errorf("%+v: %v", e, err)
	}
}

// Positions of another container are refused, and nothing is moved.
func TestExportOfAnotherContainerIsRefused(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 5)
		_, err := w.host("a", w.recorder("a")).Drain(t.Context())
		must(t, err)
		before := w.leaseDocuments()["0"].continuation
		c := w.control(nil)
		export, err := c.Export(t.Context())
		must(t, err)
		export.ResourceID, export.Leases[0].Continuation = "another", `"1"`
		plan, err := c.PlanImport(t.Context(), export)
		must(t, err)
		if err := plan.Refused(); err == nil || !strings.Contains(err.Error(), "cannot seek range 0") || !strings.Contains(err.Error(), "resource id") {
			t.Errorf("the plan is refused because of %v", err)
		}
		if err := c.Apply(t.Context(), plan); err == nil || !strings.Contains(err.Error(), "resource id") {
			t.Errorf("the plan is applied: %v", err)
		}
		if now := w.leaseDocuments()["0"].continuation; now != before {
			t.Errorf("the lease is at %s, not at %s", now, before)
		}
	})
}

// An operator learns from the plan that a .NET owner does not know pauses, before a pause
// of other ranges is written.
func TestPauseOfADotNetOwnerIsRefusedInThePlan(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		c := w.control(nil)
		_, err := c.Init(t.Context())
		must(t, err)
		l := w.leaseDocuments()["1"]
		l.owner = "dotnet"
		w.replaceLease(l)
		plan, err := c.PlanPause(t.Context(), "because", "0")
		must(t, err)
		if err := plan.Refused(); err == nil || !strings.Contains(err.Error(), `"dotnet" owns range 1`) {
			t.Errorf("the plan is refused because of %v", err)
		}
	})
}

// unlistedStore is a dead letter store that cannot be listed.
type unlistedStore struct{ memoryStore }

func (*unlistedStore) Query(context.Context, DeadLetterQuery) (DeadLetterPage, error) {
	return DeadLetterPage{}, errors.New("no such table")
}

// The error of a replay names the function and the container.
func TestFailedReplayNamesItsSource(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		of := Function{FeedSource: FeedSource{Name: "orders", Container: w.items}}.DeadLetterSource()
		if of.Function != "orders" || of.Account == "" || strings.Contains(of.Account, ":") || of.Database != "db" || of.Container != "items" {
			t.Errorf("source %+v", of)
		}
		_, err := Replay(t.Context(), &unlistedStore{}, of, w.recorder("a"), nil)
		if want := `replay function "orders" on ` + of.Account + `/db/items: no such table`; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}
