package main

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"halley/function/app"
	"halley/handlers"
	"halley/handlers/game/writer"
	"halley/handlers/handlerstest"
	"halley/tests/long"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// Each handler of the list is walked through each kind of change, in both modes, and through
// redelivery and late deliveries, and its sink ends up as its page says. The short form has one
// mode.
func TestWalk(t *testing.T) {
	modes := map[cosmos.Mode]string{cosmos.ModeAllVersions: "all versions"}
	if long.Wanted() { // before the environment is clean
		modes[cosmos.ModeLatestVersion] = "latest versions"
	}
	servers := serversOfTests(t)
	for _, r := range rows() {
		for mode, name := range modes {
			t.Run(r.entry.Name+" "+name, func(t *testing.T) {
				useServer(t, r, servers)
				walk(t, r, newWalk(mode))
			})
		}
	}
}

// walk delivers the visits in epoch 2, and a part of them again; then newer changes and a
// part of the visits in epoch 3, and at last a part again in epoch 2, as a former owner does
// that continues late.
func walk(t *testing.T, r row, v *visits) {
	host := openRow(t, r)
	var accepted []trigger.Change
	want, best := versions{}, versions{}
	take := func(one visit) {
		accepted = append(accepted, one.change)
		if one.deleted {
			delete(want, one.id)
			return
		}
		want[one.id] = one.version
		if player, ok := one.player.(string); ok {
			best[player] = max(best[player], one.score())
		}
	}
	for _, one := range v.all {
		refused := slices.Contains(r.refuses, one.id)
		verdict := triggertest.Call{Epoch: 2}.Deliver(t, host.handler, one.change)
		if (len(verdict.Failed) > 0) != refused {
			t.Fatalf("verdict on %q, %s: %v, want refused: %v", one.id, one.change.Operation, verdict, refused)
		}
		if !refused {
			take(one)
		}
	}
	host.deliver(t, triggertest.Call{Epoch: 2, Attempt: 2}, accepted[2:])
	suffix := slices.Clone(accepted[1:])
	for _, one := range v.newer() {
		take(one)
	}
	host.deliver(t, triggertest.Call{Epoch: 3}, accepted[4:])
	host.deliver(t, triggertest.Call{Epoch: 2}, suffix)
	host.flush(t)
	host.requireSinks(t, r.entry.Name)

	got, err := host.part.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if host.part.scores {
		want = best
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the sink differs (-want +got):\n%s", diff)
	}
}

// Each handler of results reads them where its setting says, and nowhere else.
func TestResultsOfOtherShapes(t *testing.T) {
	cleanEnv(t)
	for _, r := range rows() {
		if _, hasPaths := reflect.TypeOf(r.entry.Settings()).Elem().FieldByName("Result"); !hasPaths {
			continue
		}
		t.Run(r.entry.Name, func(t *testing.T) {
			t.Setenv("HALLEY_"+strings.ToUpper(r.entry.Name)+"_RESULT", "game=/title, player=/user/name, score=/points")
			host := openRow(t, r)
			player := writer.PlayerName(0)
			other := triggertest.Upsert(map[string]any{"id": "a", "title": walkGame, "user": map[string]any{"name": player}, "points": 70, "score": 1, "_ts": time.Now().Unix()}, player)
			host.deliver(t, triggertest.Call{}, []trigger.Change{other})
			usual := triggertest.Upsert(map[string]any{"id": "b", "game": walkGame, "player": player, "score": 90, "_ts": time.Now().Unix()}, player)
			if verdict := triggertest.Deliver(t, host.handler, usual); len(verdict.Failed) != 1 {
				t.Errorf("a result of the usual shape: %v", verdict)
			}
			got, err := host.part.read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(versions{player: 70}, got); diff != "" {
				t.Errorf("the board differs (-want +got):\n%s", diff)
			}
		})
	}
}

// walkHost is a handler on its sink, opened from settings.
type walkHost struct {
	part     *part
	handler  trigger.Handler
	callback handlers.RangeCallbacks
	sinks    handlerstest.Sinks
}

// sinksOf are the kinds of sinks that each handler measures. The first one gets the changes.
var sinksOf = map[string][]string{
	"leaderboard": {"redis"}, "cache": {"redis"}, "push": {"webpush", "redis"}, "fcm": {"fcm", "redis"}, "mqtt": {"mqtt", "redis"},
	"view": {"postgres"}, "search": {"bleve"}, "opensearch": {"opensearch"}, "archive": {"directory"}, "migrate": {"cosmos"},
	"webhook": {"webhook"}, "nats": {"nats"}, "kafka": {"kafka"}, "remote": {"function"},
}

// requireSinks fails if a handler did not measure the requests to each of its sinks, and the
// rows that the first one has taken.
func (h *walkHost) requireSinks(t *testing.T, handler string) {
	t.Helper()
	want := sinksOf[handler]
	if got := h.sinks.Names(); len(want) == 0 || !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Fatalf("the handler measures the sinks %q, want %q", got, want)
	}
	for i, sink := range want {
		if total := h.sinks.Of(sink); total.OK == 0 || i == 0 && total.Rows == 0 {
			t.Errorf("sink %s: %+v", sink, total)
		}
	}
}

func openRow(t *testing.T, r row) *walkHost {
	t.Helper()
	s := &stage{rows: []row{r}}
	services, err := s.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := services.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, value := range services.Settings {
		t.Setenv(name, value)
	}
	settings, err := r.entry.Load()
	if err != nil {
		t.Fatal(err)
	}
	client := triggertest.NewWorld(t, nil).Client()
	run := &app.DevRun{Client: client, Functions: []app.DevFunction{{Name: r.entry.Name, Database: database, Container: results, Settings: settings}}}
	if err := services.Prepare(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	host := &walkHost{part: s.parts[0]}
	host.handler = handlerstest.Under(t, r.entry, handlers.Env{
		Container: client.Container, Database: database, ContainerName: results,
		Follow:  func(c handlers.RangeCallbacks) { host.callback = c },
		Measure: host.sinks.Measure,
	})
	return host
}

// deliver delivers changes in one batch, all of which are handled.
func (h *walkHost) deliver(t *testing.T, call triggertest.Call, changes []trigger.Change) {
	t.Helper()
	if v := call.Deliver(t, h.handler, changes...); len(v.Failed) > 0 {
		t.Errorf("redelivery in epoch %d: %v", call.Epoch, v)
	}
}

// flush makes the changes durable that the handler keeps in memory.
func (h *walkHost) flush(t *testing.T) {
	t.Helper()
	if h.callback.Flush == nil {
		return
	}
	whole := trigger.RangeInfo{Function: t.Name(), Range: cosmos.Range{ID: "0", Max: "FF"}, Epoch: 3}
	if err := h.callback.Flush(context.WithoutCancel(t.Context()), whole); err != nil {
		t.Error(err)
	}
}

// visits are the changes of a walk, in the order of the feed.
type visits struct {
	mode cosmos.Mode
	all  []visit
}

// visit is one change.
type visit struct {
	change  trigger.Change
	id      string
	player  any // its partition key
	version int
	deleted bool
}

func (v visit) score() int { return 10 * v.version }

// large is the text of a document of 1.9 MB.
var large = strings.Repeat("large ", 1_900_000/6)

func newWalk(mode cosmos.Mode) *visits {
	v := &visits{mode: mode}
	v.write("a", writer.PlayerName(0), 1, nil)
	v.write("b", writer.PlayerName(1), 1, nil)
	v.write("c", writer.PlayerName(2), 1, nil)
	v.write("a", writer.PlayerName(0), 2, nil)
	v.remove("b", writer.PlayerName(1), 2, triggertest.Delete)
	v.remove("c", writer.PlayerName(2), 2, triggertest.Expire)
	v.write(walkShape, writer.PlayerName(3), 0, map[string]any{"game": nil, "score": nil, "version": nil, "value": []any{1.5, map[string]any{"inner": nil}, "text"}})
	v.write(walkLarge, writer.PlayerName(4), 1, map[string]any{"text": large})
	v.write(walkNumberKey, 7.5, 1, nil)
	v.write(walkBooleanKey, true, 1, nil)
	v.write(walkNullKey, nil, 1, nil)
	v.write(walkMissingKey, missing, 1, nil)
	v.write("d", writer.PlayerName(5), 1, nil)
	v.remove("d", writer.PlayerName(5), 2, triggertest.Delete)
	v.write("d", writer.PlayerName(5), 3, nil)
	return v
}

// newer are changes after those of the walk: of a document that was replaced, and of one
// that was deleted.
func (v *visits) newer() []visit {
	first := len(v.all)
	v.write("a", writer.PlayerName(0), 3, nil)
	v.write("b", writer.PlayerName(1), 3, nil)
	return v.all[first:]
}

// missing is the value of a partition key that a document lacks.
var missing = struct{}{}

// write adds a version of a document. In properties, nil removes a property.
func (v *visits) write(id string, player any, version int, properties map[string]any) {
	document := v.document(id, player, version, properties)
	change := triggertest.Upsert(document, player)
	switch {
	case v.mode == cosmos.ModeLatestVersion:
	case version > 1 && !v.all[v.last(id)].deleted:
		change = triggertest.Replace(document, v.document(id, player, version-1, properties), player)
	default:
		change = triggertest.Create(document, player)
	}
	v.add(visit{change: change, id: id, player: player, version: version})
}

// last is the place of a document's last change.
func (v *visits) last(id string) int {
	for i, one := range slices.Backward(v.all) {
		if one.id == id {
			return i
		}
	}
	return -1
}

// remove adds a delete or an expiry. In latest-version mode both are a soft delete, whose
// document expires later, which the feed does not show.
func (v *visits) remove(id string, player any, version int, kind func(id string, key ...any) trigger.Change) {
	change := kind(id, player)
	if v.mode == cosmos.ModeLatestVersion {
		change = triggertest.SoftDelete(v.document(id, player, version, map[string]any{"deleted": true, "ttl": 60}), player)
	}
	v.add(visit{change: change, id: id, player: player, version: version, deleted: true})
}

func (v *visits) add(one visit) {
	one.change.LSN = int64(len(v.all)) + 1
	v.all = append(v.all, one)
}

func (v *visits) document(id string, player any, version int, properties map[string]any) map[string]any {
	document := map[string]any{
		"id": id, "game": walkGame, "player": player, "score": visit{version: version}.score(), "version": version,
		"_etag": `"` + id + string(rune('0'+version)) + `"`, "_ts": time.Now().Unix(),
	}
	if player == missing {
		delete(document, "player")
	}
	maps.Copy(document, properties)
	maps.DeleteFunc(document, func(name string, value any) bool { return value == nil && name != "player" })
	return document
}

// Each package with the Open of a handler is in the list, and so is walked.
func TestEveryHandlerIsListed(t *testing.T) {
	listed := map[string]bool{}
	for _, r := range rows() {
		listed[reflect.TypeOf(r.entry.Settings()).Elem().PkgPath()] = true
	}
	opens := regexp.MustCompile(`(?m)^func Open\(.*\bhandlers\.Env\b`)
	found := map[string]bool{}
	err := filepath.WalkDir("../../handlers", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		source, err := os.ReadFile(file)
		if err == nil && opens.Match(source) {
			found["halley/"+path.Dir(strings.TrimPrefix(filepath.ToSlash(file), "../../"))] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(found, listed); diff != "" {
		t.Errorf("packages with a handler, and those of rows() in rows.go (-packages +listed):\n%s", diff)
	}
}
