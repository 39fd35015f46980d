package migrate

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/triggertest"
)

// stage is a world with a target by category.
type stage struct {
	*triggertest.World
	*Migration
	target *cosmos.Container
}

func newStage(t testing.TB, function trigger.Function, transform Transform) *stage {
	t.Helper()
	w := triggertest.NewWorld(t, &triggertest.Options{PartitionKey: "/customer", Ranges: 2, Function: function})
	target := createTarget(t, w, "/category")
	return &stage{w, New(target, transform, nil), target}
}

// live returns the ids and keys of the live copies.
func (s *stage) live(t testing.TB) (found []string) {
	t.Helper()
	for _, d := range allDocuments(t, s.target) {
		if g := parseGuard(cosmos.Property(d, "_halley")); g == nil || !g.Deleted {
			found = append(found, textOf(cosmos.Property(d, "id"))+"/"+textOf(cosmos.Property(d, "category")))
		}
	}
	slices.Sort(found)
	return found
}

func (s *stage) requireLive(t testing.TB, want ...string) {
	t.Helper()
	if got := s.live(t); !slices.Equal(got, want) {
		t.Errorf("live copies %q, want %q", got, want)
	}
}

func TestDocumentMovesBetweenKeys(t *testing.T) {
	s := newStage(t, trigger.Function{}, nil)
	host := s.Host(s.Handle)
	for _, category := range []string{"a", "b", "a", "c"} {
		s.Put(order{ID: "1", Customer: "ada", Category: category})
		host.Drain()
		s.requireLive(t, "1/"+category)
	}
	if p := s.Progress(); p.Copied != 4 || p.Buried != 3 || p.RequestUnits == 0 {
		t.Errorf("progress %+v", p)
	}
}

func TestDeletesAreCopied(t *testing.T) {
	s := newStage(t, trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}}, nil)
	host := s.Host(s.Handle)
	host.Drain()
	s.Put(order{ID: "1", Customer: "ada", Category: "a"})
	s.Put(order{ID: "2", Customer: "ada", Category: "a"})
	s.Put(json.RawMessage(`{"id":"3","customer":"ada","category":"a","ttl":5}`))
	s.Put(order{ID: "4", Customer: "ada", Category: "a"})
	s.Delete("1", "ada")
	host.Drain()
	s.requireLive(t, "2/a", "3/a", "4/a")
	s.Delete("2", "ada")
	s.Advance(10 * time.Second)
	s.Put(order{ID: "4", Customer: "ada", Category: "b"})
	host.Drain()
	s.requireLive(t, "4/b")
	s.Advance(25 * time.Hour)
	if documents := allDocuments(t, s.target); len(documents) != 1 {
		t.Errorf("after the time to live of the tombstones: %s", documents)
	}
}

// A function in all-versions mode begins now, and one in latest-version mode copies all
// that exists: both write to one target, in any order.
func TestTwoFunctionsShareOneTarget(t *testing.T) {
	s := newStage(t, trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}}, nil)
	s.Put(order{ID: "1", Customer: "ada", Category: "a"})
	s.Put(order{ID: "2", Customer: "ada", Category: "a"})
	versions := s.Host(s.Handle)
	versions.Drain() // from now on
	stored := s.Documents()
	s.Delete("1", "ada")
	s.Put(order{ID: "2", Customer: "ada", Category: "b"})
	versions.Drain()
	var late []trigger.Change
	for _, d := range stored {
		late = append(late, longAgo(d))
	}
	if v := triggertest.Deliver(t, s.Handle, late...); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	s.requireLive(t, "2/b")
}

// longAgo returns the change of a document that was written long ago.
func longAgo(document json.RawMessage) trigger.Change {
	c := triggertest.Upsert(document, "ada")
	c.Time = time.Unix(1, 0)
	return c
}

func TestDocumentsOfOthersAreNotTouched(t *testing.T) {
	s := newStage(t, trigger.Function{}, nil)
	if _, err := s.target.Create(t.Context(), cosmos.NewPartitionKey("a"), order{ID: "1", Category: "a", Total: 7}); err != nil {
		t.Fatal(err)
	}
	v := triggertest.Deliver(t, s.Handle,
		triggertest.Upsert(order{ID: "1", Customer: "ada", Category: "a"}, "ada"),
		triggertest.Upsert(order{ID: "2", Customer: "ada", Category: "a"}, "ada"),
		triggertest.Upsert(order{ID: "2", Customer: "bob", Category: "a"}, "bob"))
	if !v.GivenUp || len(v.Failed) != 2 || len(v.Handled) != 1 {
		t.Fatal(v)
	}
	for _, want := range []string{"was not written by the migration", `the copy of another document, with key ["`} {
		if !strings.Contains(v.Err.Error(), want) {
			t.Errorf("error does not say %q: %v", want, v.Err)
		}
	}
	s.requireLive(t, "1/a", "2/a")
}

func TestDocumentsThatCannotBeCopiedAreGivenUp(t *testing.T) {
	s := newStage(t, trigger.Function{}, func(document json.RawMessage) (json.RawMessage, error) {
		switch textOf(cosmos.Property(document, "id")) {
		case "fails":
			return nil, errors.New("no price")
		case "renamed":
			return json.RawMessage(`{"id":"other"}`), nil
		case "text":
			return json.RawMessage(`"text"`), nil
		case "null":
			return json.RawMessage(`null`), nil
		case "listed":
			return json.RawMessage(`{"id":"listed","category":["a"]}`), nil
		}
		return document, nil
	})
	for id, want := range map[string]string{
		"fails":   "transform: no price",
		"renamed": `the id of the copy is "other", not "renamed"`,
		"text":    "not a JSON object",
		"null":    "not a JSON object",
		"listed":  "partition key /category of the target: the value is an object or an array",
	} {
		v := triggertest.Deliver(t, s.Handle, triggertest.Upsert(order{ID: id, Category: "a"}, "ada"), triggertest.Upsert(order{ID: "good", Category: "a"}, "ada"))
		if !v.GivenUp || len(v.Failed) != 1 || v.Failed[0].ID() != id || !strings.Contains(v.Err.Error(), want) {
			t.Errorf("%s: %v", id, v)
		}
	}
	s.requireLive(t, "good/a")
}

func TestFailuresOfTheTarget(t *testing.T) {
	s := newStage(t, trigger.Function{}, nil)
	batch := []trigger.Change{triggertest.Upsert(order{ID: "1", Category: "a"}, "ada"), triggertest.Upsert(order{ID: "2", Category: "a"}, "ada")}
	writes := map[string]string{"X-Ms-Documentdb-Isquery": "^$"} // the client repeats queries by itself
	remove := s.Account().Inject(emulator.Fault{Method: http.MethodPost, Path: "/colls/target/", Header: writes, Status: 503})
	if v := triggertest.Deliver(t, s.Handle, batch...); v.GivenUp || len(v.Failed) != 2 {
		t.Errorf("target is down: %v", v)
	}
	remove()
	var sinks handlerstest.Sinks
	s.options.Meter = handlers.Env{Measure: sinks.Measure}.Meter("cosmos")
	s.budget.meter = s.options.Meter
	s.Account().Inject(emulator.Fault{Method: http.MethodPost, Path: "/colls/target/", Status: 429, RetryAfter: 5 * time.Millisecond, Count: 3})
	if v := triggertest.Deliver(t, s.Handle, batch...); len(v.Failed) != 0 {
		t.Errorf("throttled: %v", v)
	}
	if p := s.Progress(); p.Throttled != 3 {
		t.Errorf("progress %+v", p)
	}
	if total := sinks.Of("cosmos"); total.Throttled != 3 || total.Retries != 3 || total.OK < 3 || total.Rows != 2 {
		t.Errorf("measured %+v", total)
	}
	s.requireLive(t, "1/a", "2/a")
}

// The key of the target may be the id, have several levels, or be missing in a document.
func TestKeysOfTargets(t *testing.T) {
	for _, paths := range [][]string{{"/id"}, {"/category"}, {"/by/category"}, {"/category", "/by/total"}, {"/customer", "/category", "/id"}} {
		t.Run(strings.Join(paths, " "), func(t *testing.T) {
			w := triggertest.NewWorld(t, &triggertest.Options{PartitionKey: "/customer", Function: trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}}})
			ttl := -1
			if err := w.Client().CreateContainer(t.Context(), triggertest.Database, cosmos.ContainerDefinition{
				ID: "target", PartitionKey: cosmos.PartitionKeyDefinition{Paths: paths}, DefaultTTL: &ttl,
			}); err != nil {
				t.Fatal(err)
			}
			s := &stage{w, New(w.Client().Container(triggertest.Database, "target"), nil, nil), w.Client().Container(triggertest.Database, "target")}
			w.Put(json.RawMessage(`{"id":"before","customer":"ada"}`))
			host := w.Host(s.Handle)
			host.Drain()
			w.Delete("before", "ada") // which has no copy
			for _, version := range []string{`"category":"a","by":{"category":"x","total":1.5}`, `"category":null,"by":{"category":true}`, `"other":1`, `"category":"a"`} {
				w.Put(json.RawMessage(`{"id":"1","customer":"ada",` + version + `}`))
				w.Put(json.RawMessage(`{"id":"2","customer":"bob",` + version + `}`))
				host.Drain()
				if v := s.verify(t, VerifyOptions{}); !v.Equal() || v.Target != 2 {
					t.Errorf("%s: %+v", version, v)
				}
			}
			w.Delete("1", "ada")
			host.Drain()
			if v := s.verify(t, VerifyOptions{}); !v.Equal() || v.Target != 1 || v.Tombstones < 2 {
				t.Errorf("after a delete: %+v", v)
			}
			late := triggertest.Upsert(`{"id":"before","customer":"ada","category":"a"}`, "ada")
			late.Time = time.Unix(1, 0)
			if v := triggertest.Deliver(t, s.Handle, late); len(v.Failed) > 0 {
				t.Fatal(v)
			}
			if v := s.verify(t, VerifyOptions{}); !v.Equal() || v.Target != 1 {
				t.Errorf("after a late write: %+v", v)
			}
		})
	}
}

// Host A looks at the copies of a document and pauses; host B copies a newer version to
// another key; then A creates its copy at the old key. Its second look finds B's.
func TestLateCopyAtAnotherKeyIsBuried(t *testing.T) {
	s := newStage(t, trigger.Function{}, nil)
	paths, err := s.targetPaths(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old := triggertest.Upsert(order{ID: "1", Customer: "ada", Category: "a"}, "ada")
	old.Time = time.Unix(1, 0)
	pending, verdicts := s.plan(trigger.NewBatch(old), paths)
	look := func() map[string][]*targetCopy {
		t.Helper()
		copies, err := s.findCopies(t.Context(), idsOf(pending), false)
		if err != nil {
			t.Fatal(err)
		}
		return copies
	}
	copies := look()
	if v := triggertest.Deliver(t, s.Handle, triggertest.Upsert(order{ID: "1", Customer: "ada", Category: "b"}, "ada")); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	pending = s.advance(t.Context(), pending, copies, paths, verdicts)
	s.requireLive(t, "1/a", "1/b")
	for len(pending) > 0 {
		pending = s.advance(t.Context(), pending, look(), paths, verdicts)
	}
	s.requireLive(t, "1/b")
	if err := verdicts.err(1); err != nil {
		t.Error(err)
	}
}

// Another host writes between this host's look at the copies and its write.
func TestWriteUnderAnOldEtagIsRepeated(t *testing.T) {
	s := newStage(t, trigger.Function{}, nil)
	if v := triggertest.Deliver(t, s.Handle, triggertest.Upsert(order{ID: "1", Category: "a", Total: 1}, "ada")); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	s.Account().Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/target/", Status: 412, Count: 2})
	if v := triggertest.Deliver(t, s.Handle, triggertest.Upsert(order{ID: "1", Category: "a", Total: 2}, "ada")); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	if got := string(cosmos.Property(allDocuments(t, s.target)[0], "total")); got != "2" {
		t.Errorf("total is %s", got)
	}
}

// A unique key of the target refuses a copy with the status of a document that exists.
func TestConflictThatLastsFailsItsDocumentAlone(t *testing.T) {
	s := newStage(t, trigger.Function{}, nil)
	s.Account().Inject(emulator.Fault{Method: http.MethodPost, Path: "/colls/target/", Header: map[string]string{"X-Ms-Documentdb-Isquery": "^$", "X-Ms-Documentdb-Partitionkey": `\["taken"\]`}, Status: 409})
	v := triggertest.Deliver(t, s.Handle, triggertest.Upsert(order{ID: "1", Category: "a"}, "ada"), triggertest.Upsert(order{ID: "2", Category: "taken"}, "ada"))
	if v.GivenUp || len(v.Failed) != 1 || v.Failed[0].ID() != "2" || !strings.Contains(v.Err.Error(), "perhaps the target has a unique key") {
		t.Errorf("verdict: %v", v)
	}
	s.requireLive(t, "1/a")
}

func TestSettingsAreChecked(t *testing.T) {
	w := triggertest.NewWorld(t, nil)
	env := handlers.Env{Prefix: "HALLEY_MIGRATE_", Container: w.Client().Container, Database: triggertest.Database, ContainerName: triggertest.Container}
	good := Settings{TargetContainerName: "target", RequestUnits: 100, Parallel: 8, TombstoneTTL: handlers.Interval(time.Hour), GuardProperty: "_halley"}
	for want, spoil := range map[string]func(*Settings){
		"setting HALLEY_MIGRATE_TARGET_CONTAINER_NAME is empty; name the container": func(s *Settings) { s.TargetContainerName = "" },
		"setting HALLEY_MIGRATE_TARGET_CONTAINER_NAME is the monitored container":   func(s *Settings) { s.TargetContainerName = "items" },
		"setting HALLEY_MIGRATE_TARGET_CONNECTION is not the name":                  func(s *Settings) { s.TargetConnection = "AccountKey=hunter2" },
		"setting HALLEY_MIGRATE_TARGET_CONNECTION names a connection, but":          func(s *Settings) { s.TargetConnection = "Other" },
		"setting HALLEY_MIGRATE_REQUEST_UNITS is 9; it must be at least 10":         func(s *Settings) { s.RequestUnits = 9 },
		"setting HALLEY_MIGRATE_TOMBSTONE_TTL is 1s; it must be at least 1m":        func(s *Settings) { s.TombstoneTTL = handlers.Interval(time.Second) },
		`setting HALLEY_MIGRATE_GUARD_PROPERTY is "id"`:                             func(s *Settings) { s.GuardProperty = "id" },
	} {
		bad := good
		spoil(&bad)
		_, _, err := Open(t.Context(), env, bad)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
}

func TestProbeChecksTarget(t *testing.T) {
	w := triggertest.NewWorld(t, nil)
	var probes []handlers.Probe
	env := handlers.Env{Container: w.Client().Container, Database: triggertest.Database, Probe: func(p handlers.Probe) { probes = append(probes, p) }}
	s := Settings{TargetContainerName: "target", RequestUnits: 100, TombstoneTTL: handlers.Interval(time.Hour), GuardProperty: "_halley"}
	if _, _, err := Open(t.Context(), env, s); err != nil {
		t.Fatal(err)
	}
	if err := probes[0].Try(t.Context()); err == nil || !strings.Contains(err.Error(), "create it") {
		t.Errorf("a missing target: %v", err)
	}
	if err := w.Account().CreateContainer(triggertest.Database, "target", "/a", 1); err != nil {
		t.Fatal(err)
	}
	w.Client().Container(triggertest.Database, "target").Forget()
	if err := probes[0].Try(t.Context()); err == nil || !strings.Contains(err.Error(), "set its defaultTtl to -1") {
		t.Errorf("a target without time to live: %v", err)
	}
}
