package tests

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"halley/tests/functionshost"
	"halley/tests/long"
)

// packageApp runs scripts/package once for all tests.
var packageApp = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "halley-package-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "halley.zip")
	cmd := exec.Command("../scripts/package", path)
	cmd.Env = append(os.Environ(), "GOARCH="+runtime.GOARCH)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New("scripts/package: " + err.Error() + "\n" + string(out))
	}
	return path, nil
})

// unpacked returns a fresh copy of the app in its deployed form: the files of its package.
// The short form has the binary of the other tests in it, because package compiles every
// module in another way.
func unpacked(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the package is a Linux binary")
	}
	if !long.Wanted() {
		return assembled(t)
	}
	path, err := packageApp()
	if err != nil {
		t.Fatal(err)
	}
	return unzip(t, path)
}

// assembled returns a directory with the files that package puts into the zip, and the
// binary of the other tests.
func assembled(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	err := os.Mkdir(filepath.Join(root, "function"), 0o755)
	for _, name := range []string{"host.json", "function/function.json"} {
		text, readErr := os.ReadFile(filepath.Join("..", name))
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(root, name), text, 0o600))
	}
	if err = errors.Join(err, os.Link(binaries.halley, filepath.Join(root, "halley"))); err != nil {
		t.Fatal(err)
	}
	return root
}

// unzip returns a directory with the files of a package.
func unzip(t *testing.T, path string) string {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	root := t.TempDir()
	for _, f := range z.File {
		if err := extract(f, root); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func extract(f *zip.File, root string) error {
	path := filepath.Join(root, f.Name)
	if f.FileInfo().IsDir() {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, f.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// hostApp runs the app under the stand-in host until the test ends.
func hostApp(t *testing.T, root string, settings map[string]string, opts functionshost.Options) *functionshost.Host {
	t.Helper()
	settings["FUNCTIONS_WORKER_RUNTIME"] = "custom"
	opts.Settings, opts.Environ = settings, environ(nil)
	h, err := functionshost.Start(root, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		checkOutput(t, h)
	})
	return h
}

// checkOutput fails the test if stdout has lines other than JSON, or if stderr has
// any, because the host records these as errors.
func checkOutput(t *testing.T, h *functionshost.Host) {
	t.Helper()
	for _, line := range h.Lines() {
		if line.Stderr || !json.Valid([]byte(line.Text)) {
			t.Errorf("the handler wrote %+v", line)
		}
		if t.Failed() {
			t.Log(line.Text)
		}
	}
}

// ended returns the result of an invocation. If the invocation hangs, it fails the
// test.
func ended(t *testing.T, i *functionshost.Invocation) functionshost.Result {
	t.Helper()
	select {
	case <-i.Done():
		return i.Result()
	case <-time.After(patience):
		t.Fatalf("invocation %s hangs", i.ID)
		return functionshost.Result{}
	}
}

// The packaged app runs under a host that kills it in the middle of a batch. A
// second host starts while the first still runs, and timers are delivered twice:
// nothing is lost and no invocation hangs.
func TestHostedAppLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("packages the app and waits for leases to expire")
	}
	t.Parallel()
	a := startAccount(t, 4)
	b := newBoard(t)
	sink := b.slowly(t, 30*time.Millisecond)
	r := newRecord(t)
	l := a.distinct(r)
	root := unpacked(t)
	old := hostApp(t, root, b.smallBatches(a), functionshost.Options{})

	l.some(t, 1, 2)
	for _, timer := range []functionshost.Timer{
		{DST: true},
		{Encoding: functionshost.Text, IsPastDue: true},
		{Encoding: functionshost.Double, Status: &functionshost.ScheduleStatus{Next: time.Now()}},
	} {
		if result := ended(t, old.FireTimer("function", timer)); result.Err != nil {
			t.Fatalf("tick %+v: %v", timer, result.Err)
		}
	}
	if missing := b.missing(t, r); missing != 0 {
		t.Errorf("%d changes are missing after a tick that had all the time it wanted", missing)
	}

	l.some(t, 3, 6)
	before := b.games(t)
	sink.blockAfter(3)
	struck := old.FireTimer("function", functionshost.Timer{})
	eventually(t, "the tick is in the middle of its work", func() bool { return b.games(t) > before })
	old.Crash()
	if result := ended(t, struck); result.Err == nil || b.missing(t, r) == 0 {
		t.Errorf("not struck in the middle: %v, %d changes are missing", result.Err, b.missing(t, r))
	}

	sink.resume()
	stop := l.from(7).start(t)
	young := hostApp(t, root, b.smallBatches(a), functionshost.Options{ContentLength: true})
	var ticks []*functionshost.Invocation
	for _, h := range []*functionshost.Host{old, young, old, young} {
		ticks = append(ticks, h.FireTimer("function", functionshost.Timer{}))
	}
	stop()
	for _, tick := range ticks {
		if result := ended(t, tick); result.Err != nil {
			t.Errorf("overlapping tick: %v", result.Err)
		}
	}
	old.Stop()
	ticking(t, young)
	b.complete(t, r)
	if young.Starts() != 1 || old.Starts() != 2 {
		t.Errorf("%d and %d processes, want 2 for the host that lost one and 1 for the other", old.Starts(), young.Starts())
	}
	t.Logf("%d changes written", len(r.events(t)))
}

// ticking fires the timer of the app on schedule until the test ends.
func ticking(t *testing.T, h *functionshost.Host) {
	t.Helper()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		h.Schedule("function", 200*time.Millisecond, stop, func(r functionshost.Result) {
			if r.Err != nil {
				t.Errorf("tick: %v", r.Err)
			}
		})
	}()
	t.Cleanup(func() { close(stop); <-stopped })
}

// If there is more work than time, a timer invocation answers before functionTimeout, which
// would kill the process with all its invocations.
func TestTickEndsBeforeFunctionTimeout(t *testing.T) {
	long.Only(t, "runs for the whole of a functionTimeout")
	t.Parallel()
	a := startAccount(t, 2)
	b := newBoard(t)
	slow := b.slowly(t, 500*time.Millisecond)
	r := newRecord(t)
	a.distinct(r).some(t, 1, 10) // more than a tick can handle
	settings := b.smallBatches(a)
	settings["AzureFunctionsJobHost__functionTimeout"] = "00:00:08"
	h := hostApp(t, unpacked(t), settings, functionshost.Options{})
	result := ended(t, h.FireTimer("function", functionshost.Timer{}))
	if result.Err != nil || result.Elapsed < time.Second {
		t.Errorf("the tick ended after %v with %v; it has work for longer than its functionTimeout and ends before that without an error", result.Elapsed, result.Err)
	}
	t.Logf("answered after %v: %s", result.Elapsed, strings.Join(result.Logs, "; "))
	if h.Starts() != 1 {
		t.Errorf("%d processes: the host killed the handler", h.Starts())
	}
	slow.over()
	for b.missing(t, r) > 0 {
		if result := ended(t, h.FireTimer("function", functionshost.Timer{})); result.Err != nil {
			t.Fatal(result.Err)
		}
	}
}

// In continuous mode the app works between timer invocations, which are health
// checks. It continues after a crash, and after SIGTERM. When it gets SIGTERM, it
// must not exit with 0, because the host would never restart it.
func TestContinuousModeSurvivesCrashAndSIGTERM(t *testing.T) {
	if testing.Short() {
		t.Skip("packages the app")
	}
	t.Parallel()
	a := startAccount(t, 2)
	b := newBoard(t)
	r := newRecord(t)
	settings := b.settings(a)
	settings["HALLEY_MODE"] = "continuous"
	h := hostApp(t, unpacked(t), settings, functionshost.Options{})
	l := a.distinct(r)
	l.some(t, 1, 3)
	b.complete(t, r)
	if result := ended(t, h.FireTimer("function", functionshost.Timer{})); result.Err != nil {
		t.Errorf("health tick: %v", result.Err)
	}
	h.Crash()
	l.some(t, 4, 6)
	b.complete(t, r)
	if err := h.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(h.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the app is started again after SIGTERM", func() bool { return h.Starts() == 3 })
	l.some(t, 7, 9)
	b.complete(t, r)
}

// If the Redis of a handler is down, the log says so like any other failure, and no
// library writes other lines. The output is checked when the test ends.
func TestUnreachableRedisIsOnlyLogged(t *testing.T) {
	if testing.Short() {
		t.Skip("packages the app")
	}
	t.Parallel()
	a := startAccount(t, 1)
	settings := newBoard(t).settings(a)
	settings["HALLEY_MODE"] = "continuous"
	settings["HALLEY_LEADERBOARD_REDIS_URL"] = "redis://127.0.0.1:1"
	h := hostApp(t, unpacked(t), settings, functionshost.Options{})
	a.distinct(newRecord(t)).some(t, 1, 2)
	eventually(t, "the failure is logged", func() bool {
		return slices.ContainsFunc(h.Lines(), func(l functionshost.Line) bool { return strings.Contains(l.Text, "dial tcp 127.0.0.1:1") })
	})
}

// If settings are invalid, the handler exits with the reason in its log, until the
// host gives up.
func TestInvalidSettingsUnderTheHost(t *testing.T) {
	if testing.Short() {
		t.Skip("packages the app")
	}
	t.Parallel()
	settings := anywhere()
	settings["HALLEY_MODE"] = "always"
	h := hostApp(t, unpacked(t), settings, functionshost.Options{})
	if r := ended(t, h.FireTimer("function", functionshost.Timer{})); r.Err == nil {
		t.Error("a tick succeeded on refused settings")
	}
	<-h.Stopped()
	lines := h.Lines()
	if h.Starts() != 3 || len(lines) == 0 || !strings.Contains(lines[0].Text, "HALLEY_MODE") {
		t.Errorf("%d processes wrote %v; want 3 that name HALLEY_MODE", h.Starts(), lines)
	}
}
