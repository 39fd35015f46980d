package tests

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/tests/functionshost"
	"halley/tests/long"
	"halley/tests/runtimeapi"
	"halley/trigger/cosmos"
)

// Limits of stripped binaries for linux/amd64, so that a library that an app does not
// use is noticed. MiB are counted. They are built as scripts/check builds, so that the build
// cache has their packages.
const (
	shopLimit    = 28 << 19 // with the embedded account, the page and the metrics
	shopDeployed = 23 << 19 // without the commands of a developer's machine
	demoDeployed = 29 << 19 // likewise, with two handlers and all dead letter stores
)

// deployTags leave out net/rpc, which AWS Lambda no longer uses, and the commands of a
// developer's machine.
const deployTags = "lambda.norpc,nodev"

// runGo runs the go command in a directory and returns its output.
func runGo(dir string, env []string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func goTool(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	out, err := runGo(dir, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// coldFlags returns the compiler flags of package, as toolchain.go names them.
func coldFlags(t *testing.T) (flags []string) {
	t.Helper()
	list := inFile(t, "../function/app/internal/packaging/toolchain.go", `(?s)\nvar coldCode = \S+\{(.+?)\n\}`)
	for _, packages := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(list, -1) {
		flags = append(flags, "-gcflags", packages[1]+"=-l")
	}
	return flags
}

// inFile returns the part of a file that an expression has in parentheses.
func inFile(t *testing.T, path, expression string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(expression).FindSubmatch(text)
	if match == nil {
		t.Fatalf("%s has no %s", path, expression)
	}
	return string(match[1])
}

// writeShop makes dir a module outside of these whose app is testdata/shop. It requires
// Halley at this directory.
func writeShop(dir string) error {
	modules, err := halleyModules()
	if err != nil {
		return err
	}
	sums, err := os.ReadFile("../go.sum")
	if err != nil {
		return err
	}
	mod := "module example.com/shop\n\ngo 1.26.0\n"
	for _, m := range modules {
		mod += fmt.Sprintf("\nreplace %s => %s\n", m.path, m.dir)
		if strings.HasSuffix(m.path, "/trigger") || strings.HasSuffix(m.path, "/handlers") || strings.HasSuffix(m.path, "/function/app") {
			mod += fmt.Sprintf("\nrequire %s v0.0.0\n", m.path)
		}
	}
	if err := errors.Join(
		os.CopyFS(dir, os.DirFS("testdata/shop")),
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600),
		os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600),
	); err != nil {
		return err
	}
	_, err = runGo(dir, []string{"GOFLAGS=-mod=mod"}, "list", "-deps", "./...") // completes go.mod
	return err
}

// halleyModule is a module of Halley in a checkout.
type halleyModule struct{ path, dir string }

// halleyModules lists the modules of the workspace.
var halleyModules = sync.OnceValues(func() (modules []halleyModule, err error) { return modulesOf("..") })

// modulesOf lists the modules of the workspace in a directory. The root module is the first.
func modulesOf(root string) (modules []halleyModule, err error) {
	out, err := runGo(root, []string{"GOWORK="}, "list", "-m", "-f", "{{.Path}} {{.Dir}}")
	for line := range strings.Lines(out) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		modules = append(modules, halleyModule{path, dir})
	}
	return modules, err
}

func shopModule(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := writeShop(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shopBuilt is the directory of builtShop, which TestMain removes.
var shopBuilt atomic.Pointer[string]

// builtShop builds the app once for all tests, in a directory of its own. It links the
// packages that the go command has compiled for the tests.
var builtShop = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "halley-shop-"); err == nil {
		shopBuilt.Store(&dir)
		err = writeShop(dir)
	}
	if err == nil {
		_, err = runGo(dir, nil, "build", "-o", "shop", ".")
	}
	return dir, err
})

// shop returns a fresh directory with the Functions app, whose binary is shop.
func shop(t *testing.T) (dir string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the stand-ins run Linux binaries")
	}
	built, err := builtShop()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	// A link: if this process wrote the program, and another test started a process meanwhile,
	// that one could hold the file open, and the program could not be executed.
	if err := errors.Join(os.CopyFS(dir, os.DirFS("testdata/shop")), os.Link(filepath.Join(built, "shop"), filepath.Join(dir, "shop"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shopSettings run the app on an account whose container has customers in its key.
func shopSettings(a *account, outbox string) map[string]string {
	return map[string]string{
		"CosmosDB":                    a.connectionString(),
		"HALLEY_DATABASE_NAME":        database,
		"HALLEY_CONTAINER_NAME":       results,
		"HALLEY_LEASE_CONTAINER_NAME": leases,
		"HALLEY_START_FROM":           "beginning",
		"HALLEY_ORDERS_OUTBOX":        outbox,
	}
}

// placeOrders writes orders of the given numbers.
func placeOrders(t *testing.T, c *cosmos.Container, key string, numbers ...int) {
	t.Helper()
	for _, n := range numbers {
		document := fmt.Sprintf(`{"id":"%d","%s":"ada","customer":"ada"}`, n, key)
		if _, err := c.Upsert(t.Context(), cosmos.NewPartitionKey("ada"), []byte(document)); err != nil {
			t.Fatal(err)
		}
	}
}

// mails returns the sorted lines of the outbox.
func mails(t *testing.T, outbox string) []string {
	t.Helper()
	text, err := os.ReadFile(outbox)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	slices.Sort(lines)
	return lines
}

// TestShopLinksOnlyItsNeeds: the app of another module holds no sink or server that it
// does not use, and stays small.
func TestShopLinksOnlyItsNeeds(t *testing.T) {
	long.Only(t, "builds five binaries")
	dir := shopModule(t)
	deps := strings.Fields(goTool(t, dir, nil, "list", "-deps", "."))
	unwanted := regexp.MustCompile(`prometheus|protobuf|redis|webpush|miniredis|pushservice|/storage/az|arrow|leaderboard|/tests/|jackc|blevesearch|parquet|franz-go|nats-io|paho`)
	for _, dep := range deps {
		if unwanted.MatchString(dep) {
			t.Errorf("the app holds %s", dep)
		}
	}
	if deployed := goTool(t, dir, nil, "list", "-deps", "-tags", deployTags, "."); strings.Contains(deployed, "/emulator") || strings.Contains(deployed, "scaffold") {
		t.Error("the deployed app holds the embedded account or templates")
	}
	for _, b := range []struct {
		dir, tags, source string
		limit             int64
	}{
		{dir, "lambda.norpc", ".", shopLimit},
		{dir, deployTags, ".", shopDeployed},
		{"..", deployTags, "./function", demoDeployed},
	} {
		program := filepath.Join(t.TempDir(), "app")
		env := []string{"GOEXPERIMENT=simd", "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS="}
		args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-tags", b.tags, "-o", program}, coldFlags(t)...)
		goTool(t, b.dir, env, append(args, b.source)...)
		info, err := os.Stat(program)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s of %s with tags %s: %.2f MiB", b.source, filepath.Base(b.dir), b.tags, float64(info.Size())/(1<<20))
		if info.Size() > b.limit {
			t.Errorf("%s with tags %s has %d bytes, at most %d", b.source, b.tags, info.Size(), b.limit)
		}
	}
}

// TestShopChecksItself: check is all ok in the directory of the Functions app, whose
// executable is not called like Halley's, and the app tells its name and Halley's
// version.
func TestShopChecksItself(t *testing.T) {
	if testing.Short() {
		t.Skip("builds an app")
	}
	t.Parallel()
	a := startAccount(t, 2)
	dir := shop(t)
	settings := shopSettings(a, filepath.Join(t.TempDir(), "outbox"))
	run := func(args ...string) (string, error) {
		cmd := exec.Command("./shop", args...)
		cmd.Dir, cmd.Env = dir, environ(settings)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("check")
	if err != nil || strings.Contains(out, "FAIL") || !strings.Contains(out, "ok    packaging: executable shop") || !strings.Contains(out, "ok    orders: create, read, query, replace and delete a lease") {
		t.Errorf("check: %v\n%s", err, out)
	}
	if out, err := run("version"); err != nil || !regexp.MustCompile(`^shop \S+ \(halley \S+\) go1`).MatchString(out) {
		t.Errorf("version: %v\n%s", err, out)
	}
	if out, err := run("help"); err != nil || !strings.Contains(out, "orders      mails the customer of each new order") || !strings.Contains(out, "shop [command]") {
		t.Errorf("help: %v\n%s", err, out)
	}
	delete(settings, "HALLEY_DATABASE_NAME")
	if out, err := run("run"); err == nil || !strings.HasPrefix(out, "shop: HALLEY_DATABASE_NAME is not set") {
		t.Errorf("run without a database: %v\n%s", err, out)
	}
}

func TestShopDeliversUnderTheFunctionsHost(t *testing.T) {
	if testing.Short() {
		t.Skip("builds an app")
	}
	t.Parallel()
	a := startAccount(t, 2)
	outbox := filepath.Join(t.TempDir(), "outbox")
	settings := shopSettings(a, outbox)
	h := hostApp(t, shop(t), settings, functionshost.Options{})
	placeOrders(t, a.client.Container(database, results), "player", 1, 2, 3)
	if result := ended(t, h.FireTimer("function", functionshost.Timer{})); result.Err != nil {
		t.Fatal(result.Err)
	}
	if got := mails(t, outbox); !slices.Equal(got, []string{"hello ada: order 1", "hello ada: order 2", "hello ada: order 3"}) {
		t.Errorf("mails %q", got)
	}
	cmd := exec.Command(filepath.Join(shop(t), "shop"), "status")
	cmd.Env = environ(settings)
	if out, err := cmd.CombinedOutput(); err != nil || !regexp.MustCompile(`(?m)^orders +total +0 `).Match(out) {
		t.Errorf("status: %v\n%s", err, out)
	}
}

func TestShopDeliversAsLambdaFunction(t *testing.T) {
	if testing.Short() {
		t.Skip("builds an app")
	}
	t.Parallel()
	a := startAccount(t, 2)
	outbox := filepath.Join(t.TempDir(), "outbox")
	f, err := runtimeapi.New(filepath.Join(shop(t), "shop"), &runtimeapi.Options{Environment: shopSettings(a, outbox), Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	placeOrders(t, a.client.Container(database, results), "player", 1, 2)
	if summary, _ := drainByLambda(t, f); summary.Changes != 2 || summary.Behind != 0 {
		t.Errorf("summary %+v\n%s", summary, f.Output())
	}
	if got := mails(t, outbox); !slices.Equal(got, []string{"hello ada: order 1", "hello ada: order 2"}) {
		t.Errorf("mails %q", got)
	}
}

// TestJavaScriptClientReachesTheHandler: what a program in another language posts to
// dev is in the handler, in the long form within a second.
func TestJavaScriptClientReachesTheHandler(t *testing.T) {
	if testing.Short() {
		t.Skip("builds an app")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("the client needs Node.js 18 or later")
	}
	t.Parallel()
	outbox := filepath.Join(t.TempDir(), "outbox")
	p := start(t, "dev", filepath.Join(shop(t), "shop"), map[string]string{"HALLEY_ORDERS_OUTBOX": outbox}, "dev", "--addr", freeAddress(t))
	eventually(t, "dev prints its connection string", func() bool { return announced.MatchString(p.output.String()) })
	var took []time.Duration
	for n := range 5 {
		id := fmt.Sprint("js-", n)
		post := exec.Command(node, "testdata/post.mjs", announced.FindString(p.output.String()), "shop", "orders", "id", `{"id":"`+id+`","customer":"eve"}`)
		if out, err := post.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		answered := time.Now()
		eventually(t, "the order is mailed", func() bool { return slices.Contains(mails(t, outbox), "hello eve: order "+id) })
		took = append(took, time.Since(answered))
	}
	t.Logf("from the answer to the handler: %v", took)
	if slices.Sort(took); long.Wanted() && took[len(took)/2] > time.Second {
		t.Errorf("from the answer to the handler: %v", took)
	}
	if code := p.terminate(t); code != 0 {
		t.Errorf("dev ended with %d", code)
	}
}

// announced matches the connection string that dev prints.
var announced = regexp.MustCompile(`AccountEndpoint=(\S+?);AccountKey=.*;`)

// TestShopIsReplacedWhenItsCodeChanges runs dev --watch: a change of a Go file reaches
// the handlers, code that does not compile leaves the old ones, and the account keeps
// its data and its port.
func TestShopIsReplacedWhenItsCodeChanges(t *testing.T) {
	long.Only(t, "builds an app several times")
	t.Parallel()
	dir := shopModule(t)
	program := filepath.Join(t.TempDir(), "shop")
	goTool(t, dir, []string{"CGO_ENABLED=0"}, "build", "-o", program, ".")
	outbox := filepath.Join(t.TempDir(), "outbox")
	env := map[string]string{"HALLEY_ORDERS_OUTBOX": outbox, "CGO_ENABLED": "0"}
	for _, name := range []string{"GOPROXY", "GOFLAGS", "GOCACHE", "GOMODCACHE", "GOPATH", "GOTOOLCHAIN"} {
		env[name] = goTool(t, dir, nil, "env", name)
	}
	p := startIn(t, dir, "dev", program, env, "dev", "--watch", "--addr", freeAddress(t), "--page="+freeAddress(t))
	eventually(t, "dev prints its connection string", func() bool { return announced.MatchString(p.output.String()) })
	page := regexp.MustCompile(`http://(\S+)/\?token=(\S+)`).FindStringSubmatch(p.output.String())
	if page == nil {
		t.Fatalf("no address of a page in %s", p.output.String())
	}
	endpoint, credential, err := cosmos.ParseConnectionString(announced.FindString(p.output.String()))
	if err != nil {
		t.Fatal(err)
	}
	client, err := cosmos.NewClient(endpoint, credential, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	place := func(n int) {
		t.Helper()
		id := fmt.Sprint(n)
		if _, err := client.Container("shop", "orders").Create(t.Context(), cosmos.NewPartitionKey(id), []byte(`{"id":"`+id+`","customer":"bob"}`)); err != nil {
			t.Fatal(err)
		}
	}
	mailed := func(want ...string) {
		t.Helper()
		eventually(t, fmt.Sprintf("mails %q", want), func() bool { return slices.Equal(mails(t, outbox), want) })
	}
	onPage := func(document string) {
		t.Helper()
		eventually(t, "the page shows document "+document, func() bool {
			return strings.Contains(shownOn(t, page[1], page[2]), `"documentId":"`+document+`"`)
		})
	}
	edit := func(from, to string) {
		t.Helper()
		file := filepath.Join(dir, "orders", "orders.go")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	place(1)
	mailed("hello bob: order 1")
	onPage("1")
	edit(`"%s %s: order %s\n"`, `"%s %s: order %s\n" no`)
	eventually(t, "the error of the build is shown", func() bool { return strings.Contains(p.output.String(), "orders.go:") })
	place(2)
	mailed("hello bob: order 1", "hello bob: order 2")
	edit(`"%s %s: order %s\n" no`, `"Dear %s %s: order %s\n"`)
	eventually(t, "the new build runs", func() bool { return strings.Contains(p.output.String(), "running the new source") })
	place(3)
	onPage("3")
	mailed("Dear hello bob: order 3", "hello bob: order 1", "hello bob: order 2")
	if code := p.terminate(t); code != 0 || !strings.HasSuffix(strings.TrimSpace(p.output.String()), "every change was handled") {
		t.Errorf("dev ended with %d", code)
	}
}

// shownOn returns the changes that a page shows, or "" if it does not answer.
func shownOn(t *testing.T, host, token string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/api/v1/changes", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "" // the handlers are built again
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(text)
}
