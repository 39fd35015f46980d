package command

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// appPrincipal is the identity of the apps in these tests.
const appPrincipal = "0c9c6f3a-5d1e-4d33-9f5c-000000000001"

// right is a data action in a scope.
type right struct{ scope, action string }

func (r right) String() string {
	return strings.TrimPrefix(r.scope, "/dbs/"+apptest.Database+"/colls/") + " " + strings.TrimPrefix(r.action, dataActions)
}

const dataActions = "Microsoft.DocumentDB/databaseAccounts/"

// documentedRights are the rights of SECURITY.md, for the containers of these tests.
func documentedRights(t *testing.T) (rights []right) {
	t.Helper()
	text, err := os.ReadFile("../../../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	const database = "/dbs/" + apptest.Database
	for _, of := range []struct{ row, scope string }{
		{"database of each container", database}, {"monitored container", database + "/colls/" + apptest.Results},
		{"lease container", database + "/colls/" + apptest.Leases}, {"dead letter container", database + "/colls/dead"},
	} {
		row := regexp.MustCompile(`(?m)^\| ` + of.row + ` \| (.*) \|$`).FindSubmatch(text)
		if row == nil {
			t.Fatalf("SECURITY.md has no row of the %s", of.row)
		}
		for _, action := range regexp.MustCompile("`([^`]+)`").FindAllSubmatch(row[1], -1) {
			rights = append(rights, right{of.scope, dataActions + string(action[1])})
		}
	}
	return rights
}

// identity is a credential of the app's principal.
type identity struct{}

func (identity) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	part := base64.RawURLEncoding.EncodeToString
	expires := time.Now().Add(time.Hour)
	claims := fmt.Sprintf(`{"oid":%q,"exp":%d}`, appPrincipal, expires.Unix())
	return azcore.AccessToken{Token: part([]byte(`{"alg":"RS256"}`)) + "." + part([]byte(claims)) + "." + part([]byte(emulator.Key)), ExpiresOn: expires}, nil
}

// rightsWorld is an account whose app has chosen rights.
type rightsWorld struct {
	*apptest.Account
	t   *testing.T
	app *Program
	log *apptest.Lines

	mu       sync.Mutex // guards the fields below
	denied   []string   // requests that got 403
	endDrain func()
}

// manyDenials are more than one for each request of a drain that has to be logged.
const manyDenials = 20

func newRightsWorld(t *testing.T, rights []right) *rightsWorld {
	t.Helper()
	w := &rightsWorld{Account: apptest.ServeAccount(t, emulator.ServeOptions{}), t: t, app: testApp(), log: &apptest.Lines{}}
	w.Create(t, "dead", "/function", 1)
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	w.app.Source.Credential = func() (azcore.TokenCredential, error) { return identity{}, nil }
	w.app.Stdout = w.log
	w.assign(rights)
	env := w.Env("HALLEY_DEAD_LETTERS", "container:dead", "HALLEY_MAX_ATTEMPTS", "2", "HALLEY_RETRY_MIN", "1ms", "HALLEY_RETRY_MAX", "2ms",
		"CosmosDB__accountEndpoint", server.URL+"/")
	delete(env, "CosmosDB")
	apptest.CleanEnv(t, env)
	t.Setenv("FUNCTIONS_APP_ROOT_PATH", t.TempDir())
	return w
}

// ServeHTTP serves the account and records the requests that it denies.
func (w *rightsWorld) ServeHTTP(answer http.ResponseWriter, r *http.Request) {
	recorded := &statusRecorder{ResponseWriter: answer}
	w.Account.ServeHTTP(recorded, r)
	if recorded.status == http.StatusForbidden {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.denied = append(w.denied, r.Method+" "+r.URL.Path); len(w.denied) == manyDenials && w.endDrain != nil {
			w.endDrain()
		}
	}
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (w *rightsWorld) denials() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.denied)
}

func (w *rightsWorld) assign(rights []right) {
	w.t.Helper()
	assignments := []emulator.RoleAssignment{{Principal: "another", Scope: "/"}} // no rights are not all rights
	for _, r := range rights {
		assignments = append(assignments, emulator.RoleAssignment{Principal: appPrincipal, Scope: r.scope, DataActions: []string{r.action}})
	}
	if err := w.AssignRoles(assignments...); err != nil {
		w.t.Fatal(err)
	}
}

// command returns output and error of a command as one text.
func (w *rightsWorld) command(args ...string) (text string, err error) {
	w.t.Helper()
	text, err = runCommandsOf(w.t, w.app, args...)
	if err != nil {
		text += err.Error()
	}
	return text, err
}

func (w *rightsWorld) must(args ...string) string {
	w.t.Helper()
	out, err := w.command(args...)
	if err != nil {
		w.t.Errorf("%v: %v\n%s", args, err, out)
	}
	return out
}

func (w *rightsWorld) open(ctx context.Context) (*hosting.App, error) {
	s, err := settings.Load(w.app.Source)
	if err != nil {
		return nil, err
	}
	return hosting.Open(ctx, s, hosting.Options{Grace: time.Duration(s.App.StopGrace)}, hosting.LoggerTo(w.log, s.App))
}

// drain drains the app, until many requests were denied, and returns its log with the error.
// The app tries some denied requests again until it is stopped.
func (w *rightsWorld) drain() (s trigger.Summary, log string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	w.mu.Lock()
	w.endDrain = cancel
	w.mu.Unlock()
	a, err := w.open(ctx)
	if err != nil {
		return s, err.Error()
	}
	s, err = a.Drain(ctx)
	log = w.log.String()
	if err != nil {
		log += err.Error()
	}
	if err := a.Close(); err != nil {
		w.t.Error(err)
	}
	return s, log
}

// run runs the app until the board has n players.
func (w *rightsWorld) run(n int) {
	w.t.Helper()
	a, err := w.open(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	apptest.Until(w.t, "all players are on the board", func() bool { return w.OnBoard(w.t) == n })
	stop()
	if err := <-ended; err != nil {
		w.t.Error(err)
	}
	if err := a.Close(); err != nil {
		w.t.Error(err)
	}
}

// poison writes a document that becomes a dead letter, of many parts if it is large.
func (w *rightsWorld) poison(id string, size int) {
	w.t.Helper()
	w.WriteRaw(w.t, id, fmt.Sprintf(`{"id":%q,"player":%q,"noise":%q}`, id, id, noise(size)))
}

// noise is text that cannot be compressed.
func noise(size int) string {
	bits := make([]byte, size*3/4)
	for i := range bits {
		bits[i] = byte(rand.Uint32())
	}
	return base64.StdEncoding.EncodeToString(bits)
}

// With the rights that SECURITY.md lists, and no others, everything works: no request of
// the runtime or of a command is denied.
func TestDocumentedRightsSuffice(t *testing.T) {
	w := newRightsWorld(t, documentedRights(t))
	w.must("check")
	w.must("leases", "init")
	w.Write(t, 0, 8)
	w.poison("bad", 10)
	w.poison("large", 1_800_000)
	if s, log := w.drain(); s.Changes != 8 || s.DeadLetters != 2 || s.Behind != 0 {
		t.Errorf("%+v\n%s", s, log)
	}
	if _, err := w.Split(apptest.Database, apptest.Results, "0"); err != nil {
		t.Fatal(err)
	}
	w.Write(t, 8, 8)
	w.run(16)
	w.must("status")
	if out := w.must("deadletters", "list"); !strings.Contains(out, "large") || !strings.Contains(out, "bad") {
		t.Errorf("dead letters:\n%s", out)
	}
	if err := putSameLetterTwice(t, w.app); err != nil {
		t.Error(err)
	}
	w.must("deadletters", "show", "d0")
	w.must("deadletters", "export")
	if out, err := w.command("deadletters", "replay", "--yes"); err == nil { // they are still poison
		t.Errorf("replay:\n%s", out)
	}
	w.must("deadletters", "discard", "--all", "--yes")
	if out := w.must("deadletters", "list"); strings.Contains(out, "large") {
		t.Errorf("dead letters after the discard:\n%s", out)
	}
	dir := t.TempDir()
	for i, args := range [][]string{{"pause", "--reason", "rights"}, {"resume"}, {"seek", "--to", "beginning"}, {"release"}, {"import", filepath.Join(dir, "2.json")}} {
		w.must(append(append([]string{"leases"}, args...), "--yes", "--backup", filepath.Join(dir, fmt.Sprint(i, ".json")))...)
	}
	w.must("leases", "list")
	w.must("leases", "verify")
	w.must("leases", "export")
	if denied := w.denials(); len(denied) > 0 {
		t.Errorf("denied: %q", denied)
	}
}

// putSameLetterTwice stores a large dead letter and then one of the same id with another
// error, as two hosts do that give a change up: the second replaces the main document.
func putSameLetterTwice(t *testing.T, p *Program) (err error) {
	t.Helper()
	stores, err := (&letterFlags{program: &p.Program.Program, function: "leaderboard"}).openStores(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	document := fmt.Appendf(nil, `{"id":"d","player":"p","noise":%q}`, noise(1_800_000))
	of := stores[0].Source
	for _, cause := range []string{"redis is full", "redis is gone"} {
		err = stores[0].Put(t.Context(), trigger.DeadLetter{
			Version: trigger.DeadLetterVersion, Kind: trigger.RecordDead,
			ID: "d0", Function: of.Function, Account: of.Account, Database: of.Database, Container: of.Container, Range: "0", LSN: 10, Key: `["p"]`,
			Operation: cosmos.OperationUpsert, Document: document, DocumentID: "d", Error: cause,
			Attempts: 2, Time: time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// namesRight reports whether a text names the missing right and the command that grants
// it. Without any metadata, the first request that is denied is about the account.
func namesRight(text string, r right) bool {
	scope := regexp.QuoteMeta(r.scope)
	if r.action == dataActions+"readMetadata" {
		scope = "/"
	}
	text = strings.ReplaceAll(text, `\"`, `"`)
	return regexp.MustCompile(`403/5301 [^\n]*the data action ` + regexp.QuoteMeta(r.action) +
		`: az cosmosdb sql role assignment create [^\n]*--principal-id ` + appPrincipal + ` --scope "` + scope + `"`).MatchString(text)
}

// Without one of the rights, check fails and names it with the command that grants it.
func TestCheckNamesTheMissingRight(t *testing.T) {
	all := documentedRights(t)
	for _, missing := range all {
		t.Run(missing.String(), func(t *testing.T) {
			w := newRightsWorld(t, slices.DeleteFunc(slices.Clone(all), func(r right) bool { return r == missing }))
			out, err := w.command("check")
			if err == nil {
				t.Fatalf("check passes:\n%s", out)
			}
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "FAIL") && !strings.Contains(line, "left behind") && !namesRight(line, missing) {
					t.Errorf("this line does not name %s:\n%s", missing, line)
				}
			}
			if !namesRight(out, missing) {
				t.Errorf("check does not name %s:\n%s", missing, out)
			}
		})
	}
}

// The runtime names the missing right as well: in the log or the error of a drain that
// has a change to dead-letter, or in the error of what else needs the right.
func TestRuntimeNamesTheMissingRight(t *testing.T) {
	command := func(args ...string) func(*rightsWorld) string {
		return func(w *rightsWorld) string {
			text, _ := w.command(args...)
			return text
		}
	}
	afterwards := map[string]func(*rightsWorld) string{ // for rights that this drain does not need
		"dead sqlDatabases/containers/executeQuery": command("deadletters", "list"),
		"dead sqlDatabases/containers/items/read":   command("deadletters", "list"),
		"dead sqlDatabases/containers/items/delete": command("deadletters", "discard", "--all", "--yes"),
		"dead sqlDatabases/containers/items/replace": func(w *rightsWorld) string {
			return fmt.Sprint(putSameLetterTwice(w.t, w.app))
		},
	}
	all := documentedRights(t)
	for _, missing := range all {
		t.Run(missing.String(), func(t *testing.T) {
			w := newRightsWorld(t, slices.DeleteFunc(slices.Clone(all), func(r right) bool { return r == missing }))
			w.Write(t, 0, 2)
			w.poison("bad", 10)
			_, text := w.drain()
			if more := afterwards[missing.String()]; more != nil {
				text = more(w)
			}
			if !namesRight(text, missing) {
				t.Errorf("the runtime does not name %s:\n%s", missing, text)
			}
		})
	}
}
