package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// functionEntry returns the handler of an app with a command and these settings, or else the
// default ones.
func functionEntry(t testing.TB, settings FunctionSettings, words ...string) handlers.Entry {
	t.Helper()
	command := commandLine(t, words...)
	return handlerstest.Entry("orders", OpenFunction, func(s *FunctionSettings) {
		s.Command = command
		s.Processes = cmp.Or(settings.Processes, s.Processes)
		s.ExitGrace = cmp.Or(settings.ExitGrace, s.ExitGrace)
	})
}

// functionCommand runs a function of testdata/bad with the library of its language, or
// another module.
func (l language) functionCommand(t testing.TB, name string) []string {
	t.Helper()
	words := l.command(t, "", "")[:1]
	if l.name == "Python" {
		return append(words, "-m", "halley", l.module(name))
	}
	return append(words, absolute(t, "../../languages/typescript/run.js"), filepath.Join(absolute(t, "testdata"), l.module(name)))
}

// module returns the argument that names a function of a module.
func (l language) module(name string) string {
	module, function, _ := strings.Cut(name, ":")
	if l.name != "Python" {
		module += ".mjs"
	}
	if function == "" {
		return module
	}
	return module + ":" + function
}

func absolute(t testing.TB, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// openedFunction opens a function, with a log of what it says.
func (l language) openedFunction(t testing.TB, name string) (trigger.Handler, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	entry := functionEntry(t, FunctionSettings{}, l.functionCommand(t, name)...)
	return handlerstest.Under(t, entry, handlers.Env{Logger: zap.New(core)}), logs
}

func eachLanguage(t *testing.T, test func(t *testing.T, l language)) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			test(t, l)
		})
	}
}

func wishes(todo string) []trigger.Change {
	return []trigger.Change{document("a", "do", todo), document("b", "do", ""), document("c", "do", "")}
}

func TestVerdictsOfFunctions(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		handle, _ := l.openedFunction(t, "bad")
		for _, test := range []struct {
			todo, failed, postponed string
			givenUp, halved         bool
			err                     string
		}{
			{todo: "none"},
			{todo: "failed", failed: "a c", err: `the function failed on document "a": busy`},
			{todo: "failed from", failed: "b c", err: "the function failed: from here"},
			{todo: "retry after", failed: "b", postponed: "b", err: "tomorrow"},
			{todo: "retry all after", failed: "a b c", postponed: "a b c", err: "tomorrow"},
			{todo: "skip", failed: "a", givenUp: true, err: "no total"},
			{todo: "skip all", failed: "a b c", halved: true, err: "never"},
			{todo: "raise a verdict", failed: "b", givenUp: true, err: "never"},
			{todo: "raise", failed: "a b c", err: "total"},
			{todo: "raise 6 MB", failed: "a b c", err: "xxx"},
			{todo: "garbage", failed: "a b c", err: "the function returned"},
			{todo: "a dictionary", failed: "a b c", err: "the function returned"},
			{todo: "a foreign change", failed: "a b c", err: "which is not a change of this call"},
			{todo: "two on the batch", failed: "a b c", err: "return no other with it"},
		} {
			v := triggertest.Deliver(t, handle, wishes(test.todo)...)
			var postponed []trigger.Change
			for _, p := range v.Postponed {
				postponed = append(postponed, p.Change)
			}
			if ids(v.Failed) != test.failed || ids(postponed) != test.postponed || v.GivenUp != test.givenUp || v.Halved != test.halved {
				t.Errorf("%s: %v", test.todo, v)
			}
			if !strings.Contains(fmt.Sprint(v.Err), test.err) || v.Err != nil && len(v.Err.Error()) > 2*maxShown {
				t.Errorf("%s: error is %.300s, want %s", test.todo, fmt.Sprint(v.Err), test.err)
			}
		}
		v := triggertest.Deliver(t, handle, wishes("raise")...)
		if !strings.Contains(fmt.Sprint(v.Err), filepath.Join("testdata", l.module("bad"))) {
			t.Errorf("the error does not name the line of the function: %v", v.Err)
		}
	})
}

func TestOutputOfFunctionsIsLogged(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		core, logs := observer.New(zap.DebugLevel)
		entry := functionEntry(t, FunctionSettings{}, l.functionCommand(t, "bad")...)
		handle, stop := handlerstest.Start(t, entry, handlers.Env{Logger: zap.New(core)})
		if v := triggertest.Deliver(t, handle, wishes("print")...); v.Err != nil {
			t.Error(v)
		}
		if err := stop(); err != nil { // all output has been copied
			t.Error(err)
		}
		for _, want := range []struct{ message, line string }{
			{"command wrote to stdout", "printed"}, {"command wrote to stderr", "complained"}, {"command wrote to stdout", "from a child"},
		} {
			if logs.FilterMessage(want.message).FilterField(zap.ByteString("line", []byte(want.line))).Len() != 1 {
				t.Errorf("%q is not in the log: %v", want.line, logs.All())
			}
		}
		logged := logs.FilterMessage("logged 7").All()
		if len(logged) != 1 || logged[0].Level != zapcore.WarnLevel || logged[0].ContextMap()["order"] != "a" {
			t.Errorf("the record of its logger is %v", logged)
		}
	})
}

func TestFunctionsGetTheContextOfTheirCall(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		core, logs := observer.New(zap.DebugLevel)
		entry := functionEntry(t, FunctionSettings{}, l.functionCommand(t, "bad")...)
		handle, stop := handlerstest.Start(t, entry, handlers.Env{Logger: zap.New(core)})
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		ctx, cancel := context.WithTimeout(handlers.WithTraceparent(t.Context(), trace), time.Hour)
		defer cancel()
		b := trigger.NewBatch(wishes("context")...)
		b.Function, b.Range, b.Epoch, b.Attempt = "orders", cosmos.Range{ID: "3"}, 7, 2
		if err := errors.Join(handle(ctx, b), stop()); err != nil {
			t.Error(err)
		}
		if logs.FilterField(zap.ByteString("line", []byte("orders 3 7 2 "+trace+" True"))).Len() != 1 {
			t.Errorf("log: %v", logs.All())
		}
	})
}

// Each of these costs one attempt of its batch and the process; the next call works.
func TestFunctionsThatBreak(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ todo, want string }{
		{"exit", "the command exited: exit status 3; its last lines:\nleaving"},
		{"die", "the command exited: signal: killed"},
		{"hang", "deadline exceeded"},
		{"write garbage", "the answer is malformed"},
		{"write 6 MB", "its line has more than 4194304 bytes"},
	} {
		t.Run(test.todo, func(t *testing.T) {
			eachLanguage(t, func(t *testing.T, l language) {
				settings := FunctionSettings{ExitGrace: handlers.Interval(time.Minute)}
				handle := handlerstest.Under(t, functionEntry(t, settings, l.functionCommand(t, "bad")...), handlers.Env{})
				ctx, began := t.Context(), time.Now()
				if test.todo == "hang" { // its deadline counts, not the grace of a cancellation
					within, cancel := contextWithin(t, 300*time.Millisecond)
					defer cancel()
					ctx = within
				}
				b := trigger.NewBatch(wishes(test.todo)...)
				if v := b.Judge(handle(ctx, b)); len(v.Failed) != 3 || v.GivenUp || !strings.Contains(fmt.Sprint(v.Err), test.want) {
					t.Errorf("verdict: %v", v)
				}
				if took := time.Since(began); took >= time.Minute {
					t.Errorf("the call took %v", took)
				}
				if v := triggertest.Deliver(t, handle, wishes("none")...); v.Err != nil {
					t.Errorf("verdict after it: %v", v)
				}
			})
		})
	}
}

// A second answer to a call does not count as that of the next one.
func TestFunctionsThatAnswerTwice(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		handle, _ := l.openedFunction(t, "bad")
		if v := triggertest.Deliver(t, handle, wishes("answer twice")...); v.Err != nil {
			t.Errorf("verdict: %v", v)
		}
		v := triggertest.Deliver(t, handle, wishes("skip")...)
		if len(v.Failed) != 3 || v.GivenUp || !strings.Contains(fmt.Sprint(v.Err), "it is for call 1, and this is call 2") {
			t.Errorf("verdict on the next call: %v", v)
		}
		if v := triggertest.Deliver(t, handle, wishes("none")...); v.Err != nil {
			t.Errorf("verdict after it: %v", v)
		}
	})
}

// A fork that returns from the function does not answer in its place.
func TestForkDoesNotAnswer(t *testing.T) {
	t.Parallel()
	handle, _ := python.openedFunction(t, "bad")
	for range 3 {
		if v := triggertest.Deliver(t, handle, wishes("fork")...); v.Err != nil {
			t.Errorf("verdict: %v", v)
		}
	}
}

// A call that is cancelled may answer within the grace, and its process stays.
func TestCancellationReachesFunctions(t *testing.T) {
	t.Parallel()
	for _, function := range []string{"bad", "bad:handle_async"} {
		t.Run(function, func(t *testing.T) {
			eachLanguage(t, func(t *testing.T, l language) {
				settings := FunctionSettings{ExitGrace: handlers.Interval(time.Minute)} // if it is not told, the test waits for long
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				core, logs := observer.New(zap.DebugLevel)
				log := zap.New(notifyingCore{core, func(line string) {
					if line == "waiting" {
						cancel()
					}
				}})
				handle, stop := handlerstest.Start(t, functionEntry(t, settings, l.functionCommand(t, function)...), handlers.Env{Logger: log})
				err := handle(ctx, trigger.NewBatch(wishes("wait")...))
				if wantError := strings.Contains(function, "async"); (err != nil) != wantError {
					t.Errorf("error is %v", err)
				}
				if err := errors.Join(handle(t.Context(), trigger.NewBatch(wishes("none")...)), stop()); err != nil {
					t.Error(err)
				}
				if logs.FilterMessage("command wrote to stdout").Len() != 1 {
					t.Errorf("log: %v", logs.All())
				}
			})
		})
	}
}

// notifyingCore calls line with each line that a command has written.
type notifyingCore struct {
	zapcore.Core
	line func(string)
}

func (c notifyingCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return checked.AddCore(e, c)
}

func (c notifyingCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	for _, f := range fields {
		if line, ok := f.Interface.([]byte); ok && f.Key == "line" {
			c.line(string(line))
		}
	}
	return c.Core.Write(e, fields)
}

func TestFunctionsThatCannotBeLoaded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, python, node string }{
		{"nowhere", "No module named 'nowhere'", "nowhere.mjs"},
		{"bad:nothing", "module bad has no function nothing: write def nothing(changes)", "has no function as nothing export: write export function nothing(changes)"},
		{"bad:not_a_function", "is 7, which cannot be called", "has no function as not_a_function export"},
		{"bad:handle_three", "bad:handle_three(changes, context, more) cannot be called: it must take (changes) or (changes, context)", "has 3 parameters: it must take (changes) or (changes, context)"},
		{"broken", "SyntaxError", "SyntaxError"},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachLanguage(t, func(t *testing.T, l language) {
				want := test.node
				if l.name == "Python" {
					want = test.python
				}
				err := openError(t, commandLine(t, l.functionCommand(t, test.name)...))
				if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "setting HALLEY_ORDERS_COMMAND: start it: the command exited: exit status 1") {
					t.Errorf("error is %v, want %s", err, want)
				}
			})
		})
	}
}

// openError opens a function, which cannot be.
func openError(t *testing.T, command string) error {
	t.Helper()
	_, _, err := OpenFunction(t.Context(), handlers.Env{Prefix: "HALLEY_ORDERS_"}, FunctionSettings{Command: command, Processes: 1})
	return err
}

func TestCommandsThatAreNotFunctions(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"":                                     "setting HALLEY_ORDERS_COMMAND is empty; write for example python3 -m halley orders",
		"halley-no-such-interpreter x":         "setting HALLEY_ORDERS_COMMAND cannot be started",
		`["sh", "-c", "echo hi >&4"]`:          `it must say {"ready":2} first, and says: hi`,
		`["sh", "-c", "exit 0"]`:               "the command exited with status 0",
		`["sh", "-c", "echo old >&2; exit 1"]`: "its last lines:\nold",
	} {
		if err := openError(t, command); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %s", command, err, want)
		}
	}
}

func TestOldPythonIsRefused(t *testing.T) {
	old := filepath.Join(t.TempDir(), "sitecustomize.py")
	if err := os.WriteFile(old, []byte("import sys\nsys.version_info = (3, 8, 1, 'final', 0)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", filepath.Dir(old)+string(os.PathListSeparator)+os.Getenv("PYTHONPATH"))
	if err := openError(t, commandLine(t, python.functionCommand(t, "bad")...)); err == nil || !strings.Contains(err.Error(), "halley needs Python 3.9 or later, and this is Python 3.8") {
		t.Errorf("error is %v", err)
	}
}

func TestOneArgumentIsEnough(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		handle, _ := l.openedFunction(t, "bad:handle_documents")
		if v := triggertest.Deliver(t, handle, wishes("none")...); v.Err != nil {
			t.Error(v)
		}
	})
}
