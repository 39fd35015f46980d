package remote

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

func contextWithin(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

func changesOf(n int) []trigger.Change {
	var changes []trigger.Change
	for i := range n {
		changes = append(changes, document(fmt.Sprint("c", i), "do", ""))
	}
	return changes
}

func TestCommandIsSplit(t *testing.T) {
	for command, want := range map[string][]string{
		"python3  a.py b":         {"python3", "a.py", "b"},
		` ["python3", "a b.py"]`:  {"python3", "a b.py"},
		`["C:\\Python\\p.exe"]`:   {`C:\Python\p.exe`},
		"/opt/run [not an array]": {"/opt/run", "[not", "an", "array]"},
	} {
		got, err := splitCommand(command)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", command, err, d)
		}
	}
}

// Each process does one call at a time; a call that hangs does not keep the other process.
func TestProcessesWorkAtTheSameTime(t *testing.T) {
	t.Parallel()
	handle := opened(t, python.commandSetting(t, filepath.Join(t.TempDir(), "state")), func(s *Settings) { s.Processes = 2 })
	ctx, cancel := context.WithCancel(t.Context())
	var hanging sync.WaitGroup
	hanging.Go(func() {
		if err := handle(ctx, trigger.NewBatch(document("1", "fault", "hang"))); err == nil {
			t.Error("the call that hangs has succeeded")
		}
	})
	for range 5 {
		if v := triggertest.Deliver(t, handle, changesOf(3)...); v.Err != nil {
			t.Error(v)
		}
	}
	cancel()
	hanging.Wait()
}

// shellSetting has the handler start a program in sh.
func shellSetting(t testing.TB, script string) setting {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh on Windows")
	}
	return commandSetting(t, "sh", "-c", script)
}

// At the end the command's input ends, and it may finish.
func TestCommandExitsInGoodOrder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "end")
	script := shellSetting(t, "n=0; while read -r line; do n=$((n+1)); echo \"{\\\"call\\\":$n}\"; done; sleep 0.2; echo done >"+file)
	handle, stop := handlerstest.Start(t, entryWith(script), handlers.Env{})
	if v := triggertest.Deliver(t, handle, changesOf(1)...); v.Err != nil {
		t.Error(v)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "done\n" {
		t.Errorf("the command has not finished: %q, %v", text, err)
	}
}

// A command that ignores the end of its input is killed, with its children.
func TestCommandIsKilledAfterTheGrace(t *testing.T) {
	t.Parallel()
	script := shellSetting(t, `read -r line; echo '{"call":1}'; sleep 3600`)
	grace := func(s *Settings) { s.ExitGrace = handlers.Interval(100 * time.Millisecond) }
	handle, stop := handlerstest.Start(t, entryWith(script, grace), handlers.Env{})
	if v := triggertest.Deliver(t, handle, changesOf(1)...); v.Err != nil {
		t.Error(v)
	}
	began := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("stopping took %v", took)
	}
}

// A command that does not read its input does not keep a call for longer than its timeout.
func TestCommandThatDoesNotRead(t *testing.T) {
	t.Parallel()
	handle := opened(t, shellSetting(t, "sleep 3600"), timeoutSetting(300*time.Millisecond))
	v := triggertest.Deliver(t, handle, triggertest.Upsert(fmt.Sprintf(`{"id":"1","fill":%q}`, strings.Repeat("x", 1<<20)), "k"))
	if len(v.Failed) != 1 || !strings.Contains(fmt.Sprint(v.Err), "no answer within 300ms") {
		t.Errorf("verdict: %v", v)
	}
}

// A command that writes a line too many is not in step with the calls any more.
func TestLineTooMany(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "written")
	handle := opened(t, shellSetting(t, `while read -r line; do echo '{"call":1}'; echo '{"call":1}'; echo >`+file+"; done"))
	if v := triggertest.Deliver(t, handle, changesOf(1)...); v.Err != nil {
		t.Error(v)
	}
	waitForFile(t, file)
	v := triggertest.Deliver(t, handle, changesOf(1)...)
	if len(v.Failed) != 1 || !strings.Contains(fmt.Sprint(v.Err), "it is for call 1, and this is call 2") {
		t.Errorf("verdict: %v", v)
	}
}

// A command that exits between two calls is started again, without a failed call.
func TestExitBetweenCalls(t *testing.T) {
	t.Parallel()
	at := newPool(t, shellSetting(t, `read -r line; echo '{"call":1}'`), timeoutSetting(10*time.Second))
	for range 3 {
		if a, err := at.call(t.Context(), call{number: 1}); err != nil || a.Call != 1 {
			t.Errorf("answer is %v, %v", a, err)
		}
		one := <-at.places
		<-one.process.exited
		at.places <- one
	}
}

func newPool(t testing.TB, changes ...setting) *commandPool {
	t.Helper()
	s := Settings{Processes: 1}
	for _, change := range changes {
		change(&s)
	}
	pool, err := newCommandPool(s.Command, s.Processes, launch{timeout: time.Duration(s.RequestTimeout), log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.close(); err != nil {
			t.Error(err)
		}
	})
	return pool
}

// A command that fails at once is started less and less often.
func TestBackoff(t *testing.T) {
	at := &place{}
	for _, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000} {
		at.fail()
		if wait := time.Until(at.notBefore); wait > want*time.Millisecond || wait < want*time.Millisecond-50*time.Millisecond {
			t.Errorf("wait %v, want %v", wait, want*time.Millisecond)
		}
	}
}

// A call that its caller ends, as at a handover, is no failure of its process: the next call
// starts another one at once.
func TestEndedCallIsNoFailure(t *testing.T) {
	t.Parallel()
	at := newPool(t, shellSetting(t, "sleep 3600"), timeoutSetting(300*time.Millisecond))
	for _, test := range []struct {
		within   time.Duration
		failures int
	}{{50 * time.Millisecond, 0}, {10 * time.Second, 1}} {
		ctx, cancel := contextWithin(t, test.within)
		defer cancel()
		if _, err := at.call(ctx, call{number: 1}); err == nil {
			t.Error("a command that does not answer has answered")
		}
		one := <-at.places
		if one.failures != test.failures || one.notBefore.IsZero() != (test.failures == 0) {
			t.Errorf("after a call of at most %v: %d failures, not before %v", test.within, one.failures, one.notBefore)
		}
		at.places <- one
	}
}

func TestLines(t *testing.T) {
	var lines []string
	w := &lineWriter{most: 5, line: func(line []byte) { lines = append(lines, string(line)) }}
	for _, part := range []string{"a", "b\r\n\ncd", "\n123456789", "0\nend"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("wrote %d of %q, %v", n, part, err)
		}
	}
	if d := cmp.Diff([]string{"ab", "", "cd", "123456"}, lines); d != "" {
		t.Error(d)
	}
}

// waitForFile returns when a file exists.
func waitForFile(t testing.TB, path string) {
	t.Helper()
	ctx, cancel := contextWithin(t, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s does not come", path)
		}
	}
}

// The function of the documentation works.
func TestDocumentedFunction(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/handlers/remote.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```python\n")
	function, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page has no function in Python")
	}
	stub := "def mail_customer(document):\n    if document['id'] != 'fine':\n        raise {'never': ValueError, 'later': OSError}[document['id']]('no')\n\n"
	file := filepath.Join(t.TempDir(), "function.py")
	if err := os.WriteFile(file, []byte(stub+function), 0o600); err != nil {
		t.Fatal(err)
	}
	handle := opened(t, commandSetting(t, python.command(t, "", "")[0], file))
	if v := triggertest.Deliver(t, handle, document("fine", "a", ""), document("later", "a", "")); ids(v.Failed) != "later" || v.GivenUp {
		t.Errorf("verdict: %v", v)
	}
	if v := triggertest.Deliver(t, handle, document("fine", "a", ""), document("never", "a", "")); ids(v.Failed) != "never" || !v.GivenUp {
		t.Errorf("verdict: %v", v)
	}
}
