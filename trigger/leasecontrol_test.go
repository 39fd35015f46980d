package trigger

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/leases"
)

func TestLeaseControlNeedsContainersAndName(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		good := leases.Source{Name: "test", Container: w.items}
		for want, control := range map[string]func() (*leases.Control, error){
			"lease container": func() (*leases.Control, error) { return leases.NewControl(nil, good, nil) },
			"Container":       func() (*leases.Control, error) { return leases.NewControl(w.leases, leases.Source{Name: "test"}, nil) },
			"Name": func() (*leases.Control, error) {
				return leases.NewControl(w.leases, leases.Source{Container: w.items}, nil)
			},
		} {
			if _, err := control(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want an error about %s", err, want)
			}
		}
		if _, err := leases.NewControl(w.leases, good, nil); err != nil {
			t.Error(err)
		}
	})
}

// The control of a function creates its leases where the function starts, finds them by
// their prefix, and knows their mode.
func TestControlKnowsTheSourceOfItsFunction(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		control := func(source leases.Source) *leases.Control {
			source.Name, source.Container = "test", w.items
			c, err := leases.NewControl(w.leases, source, nil)
			must(t, err)
			return c
		}
		list := func(c *leases.Control) []leases.Info {
			found, err := c.List(t.Context())
			must(t, err)
			return found
		}
		w.write("doc", "doc")
		fromBeginning := control(leases.Source{LeasePrefix: "beginning", StartFrom: FromBeginning()})
		fromNow := control(leases.Source{LeasePrefix: "now"})
		for _, c := range []*leases.Control{fromBeginning, fromNow} {
			n, err := c.Init(t.Context())
			must(t, err)
			if n != 1 || len(list(c)) != 1 {
				t.Errorf("%d leases were created, and the list has %d", n, len(list(c)))
			}
		}
		if position := list(fromBeginning)[0].Continuation; position != "" {
			t.Errorf("from the beginning is at %s", position)
		}
		if list(fromNow)[0].Continuation == "" {
			t.Error("now is the beginning")
		}
		if found := list(control(leases.Source{})); len(found) != 0 {
			t.Errorf("leases of another prefix: %+v", found)
		}
		_, err := control(leases.Source{ChangeFeedMode: cosmos.ModeAllVersions}).PlanSeek(t.Context(), FromBeginning())
		if err == nil || !strings.Contains(err.Error(), "all versions cannot be read from the beginning") {
			t.Errorf("seek of all versions to the beginning: %v", err)
		}
	})
}

// A range that has split cannot be moved until an owner has created the leases that follow,
// and a caller can tell this refusal from others.
func TestSeekOfASplitRangeIsRefused(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		c := w.control(nil)
		_, err := c.Init(t.Context())
		must(t, err)
		_, err = w.account.Split("db", "items", "0")
		must(t, err)
		plan, err := c.PlanSeek(t.Context(), FromNow())
		must(t, err)
		if err := plan.Refused(); !errors.Is(err, leases.ErrRangeSplit) || !strings.Contains(err.Error(), "plan again") {
			t.Errorf("the plan is refused because of %v", err)
		}
	})
}

// The list tells owners apart: a host that renews, a dead one, and one that does not know
// pauses.
func TestListTellsKindsOfOwners(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		c := w.control(nil)
		check := func(want leases.OwnerKind) {
			t.Helper()
			list, err := c.List(t.Context())
			must(t, err)
			if len(list) != 1 || list[0].OwnerKind != want || list[0].Range != "0" || list[0].Max != "FF" || list[0].Function != "test" {
				t.Errorf("leases %+v, want an owner of kind %q", list, want)
			}
		}
		_, err := c.Init(t.Context())
		must(t, err)
		check(leases.OwnerFree)
		stop := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(time.Minute)
		check(leases.OwnerHalley)
		stop()
		l := w.leaseDocuments()["0"]
		l.owner = "dotnet"
		l.properties = map[string]string{}
		w.replaceLease(l)
		check(leases.OwnerOther)
		time.Sleep(2 * time.Minute)
		check(leases.OwnerFree)
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
		c := w.control(&leases.ControlOptions{Operator: "on-call"})
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
	for force, limit := range map[bool]time.Duration{false: 100 * time.Second, true: 40 * time.Second} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			stop := w.startHost(w.host("a", withDelay(90*time.Second, w.recorder("a")), withoutLogger))
			w.write("doc", "doc")
			time.Sleep(20 * time.Second) // the call runs
			c := w.control(&leases.ControlOptions{Force: force})
			began := time.Now()
			plan, err := c.PlanSeek(t.Context(), FromNow())
			w.apply(c, plan, err)
			if took := time.Since(began); took > limit || !force && took < 60*time.Second {
				t.Errorf("force %v: the seek took %v", force, took)
			}
			stop()
		})
	}
}

// The target of a seek is a start or a token, and a start is one of three.
func TestStartsAndSeeksAreParsed(t *testing.T) {
	const noon = "2026-01-31T12:00:00Z"
	moment, err := time.Parse(time.RFC3339, noon)
	must(t, err)
	for text, want := range map[string]Start{"": FromNow(), "now": FromNow(), "Beginning": FromBeginning(), "snapshot": FromSnapshot(), noon: FromTime(moment)} {
		if got, err := ParseStart(text); err != nil || got != want || text != "" && got.String() != strings.ToLower(text) && got.String() != text {
			t.Errorf("start %q is %v: %v", text, got, err)
		}
	}
	for text, want := range map[string]Start{
		"now": FromNow(), "beginning": FromBeginning(), "snapshot": FromSnapshot(), noon: FromTime(moment), "1526": FromContinuation(`"1526"`), `"1526"`: FromContinuation(`"1526"`),
	} {
		if got, err := leases.ParseSeek(text); err != nil || got != want {
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
		if _, err := leases.ParseSeek(text); err == nil || !strings.Contains(err.Error(), "a token such as 1526") {
			t.Errorf("seek to %q: %v", text, err)
		}
	}
}

// Positions of another container are refused, and nothing is moved.
func TestExportOfAnotherContainerIsRefused(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 5)
		_, err := w.host("a", w.recorder("a")).Drain(t.Context())
		must(t, err)
		oldPosition := w.leaseDocuments()["0"].continuation
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
		if now := w.leaseDocuments()["0"].continuation; now != oldPosition {
			t.Errorf("the lease is at %s, not at %s", now, oldPosition)
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
		source := Function{FeedSource: FeedSource{Name: "orders", Container: w.items}}.DeadLetterSource()
		if source.Function != "orders" || source.Account == "" || strings.Contains(source.Account, ":") || source.Database != "db" || source.Container != "items" {
			t.Errorf("source %+v", source)
		}
		_, err := Replay(t.Context(), &unlistedStore{}, source, w.recorder("a"), nil)
		if want := `replay function "orders" on ` + source.Account + `/db/items: no such table`; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}
