package functions

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/hosttest"
	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/emulator"
)

// queueBody is the request of the Functions host for a message, whose text it encodes
// twice.
func queueBody(t *testing.T, message string) string {
	t.Helper()
	once, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"Data": map[string]any{"range": string(once)}, "Metadata": map[string]any{"DequeueCount": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// invoke posts an invocation and returns the outputs and logs.
func invoke(t *testing.T, url, name, body string) (status int, outputs map[string]json.RawMessage, logs string) {
	t.Helper()
	resp, err := http.Post(url+"/"+name, "application/json; charset=utf-8", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Outputs map[string]json.RawMessage
		Logs    []string
	}
	if err := json.Unmarshal(data, &answer); err != nil || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("answer %s of type %q: %v", data, resp.Header.Get("Content-Type"), err)
	}
	return resp.StatusCode, answer.Outputs, strings.Join(answer.Logs, "; ")
}

// messagesOf returns the messages of a timer invocation's answer, which are objects.
func messagesOf(t *testing.T, outputs map[string]json.RawMessage) (messages []string) {
	t.Helper()
	if outputs["ranges"] == nil {
		return nil
	}
	var objects []map[string]string
	var raw []json.RawMessage
	if err := errors.Join(json.Unmarshal(outputs["ranges"], &objects), json.Unmarshal(outputs["ranges"], &raw)); err != nil {
		t.Fatalf("outputs %s: %v", outputs["ranges"], err)
	}
	for i, o := range objects {
		if len(o) != 2 || o["function"] == "" || o["range"] == "" {
			t.Errorf("message %v", o)
		}
		messages = append(messages, string(raw[i]))
	}
	return messages
}

func TestFanoutAnswersWithOneMessageForEachRange(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	account.Write(t, 0, 12)
	url, stop, logged := hosted(t, account.Env("HALLEY_MODE", "fanout"))
	status, outputs, logs := invoke(t, url, "function", timerBody)
	messages := messagesOf(t, outputs)
	if status != http.StatusOK || len(messages) != 2 || len(outputs) != 1 || !strings.Contains(logs, "2 messages") {
		t.Fatalf("tick: %d %s %q", status, outputs, logs)
	}
	if n := account.OnBoard(t); n != 0 {
		t.Errorf("the tick delivered %d changes", n)
	}
	if status, outputs, _ := invoke(t, url, "function", timerBody); status != http.StatusOK || len(outputs) != 0 {
		t.Errorf("second tick: %d %s", status, outputs)
	}
	for _, m := range messages {
		if status, outputs, logs := invoke(t, url, "drain", queueBody(t, m)); status != http.StatusOK || len(outputs) != 0 || !strings.Contains(logs, "1 drained") {
			t.Errorf("message %s: %d %s %q", m, status, outputs, logs)
		}
	}
	if got := account.OnBoard(t); got != 12 {
		t.Errorf("%d players on the board, want 12", got)
	}
	if status, _, logs := invoke(t, url, "drain", queueBody(t, messages[0])); status != http.StatusOK || !strings.Contains(logs, "1 idle") {
		t.Errorf("message that comes twice: %d %q", status, logs)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	logged.CheckJSON(t)
}

// Messages that no retry can help are answered with success, so that the queue forgets
// them, and the log names the problem.
func TestUselessMessagesAreDropped(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	url, _, logged := hosted(t, account.Env("HALLEY_MODE", "fanout"))
	for message, says := range map[string]string{
		"":                                  "not an object",
		"hello":                             "not an object",
		"7":                                 "not an object",
		"[]":                                "not an object",
		`{"range":"0"}`:                     "not an object with function and range",
		`{"function":"orders"}`:             "not an object with function and range",
		`{"function":1}`:                    "not an object",
		strings.Repeat("x", 999):            "not an object",
		`{"function":"orders","range":"0"}`: "is enabled in this app",
		`{"function":"leaderboard","range":"77"}`: "no lease has this token",
	} {
		status, _, logs := invoke(t, url, "drain", queueBody(t, message))
		if status != http.StatusOK || !strings.Contains(logs, says) || !strings.Contains(logged.String(), says) || len(logs) > 500 {
			t.Errorf("message %q: %d %q, want %q", message, status, logs, says)
		}
	}
	if status, _, logs := invoke(t, url, "drain", `{"Data":{},"Metadata":{}}`); status != http.StatusOK || !strings.Contains(logs, "no message") {
		t.Errorf("invocation without a message: %d %q", status, logs)
	}
}

// A message fails if it may succeed later: the queue delivers it again.
func TestMessageFailsWhileLeasesCannotBeRead(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	account.Write(t, 0, 12)
	url, _, _ := hosted(t, account.Env("HALLEY_MODE", "fanout"))
	_, outputs, _ := invoke(t, url, "function", timerBody)
	remove := account.Inject(emulator.Fault{Path: "/colls/leases/", Status: 403, Message: "blocked by the firewall"})
	message := messagesOf(t, outputs)[0]
	if status, _, _ := invoke(t, url, "drain", queueBody(t, message)); status != http.StatusInternalServerError {
		t.Errorf("without leases: %d, want 500", status)
	}
	if status, _, _ := invoke(t, url, "function", timerBody); status != http.StatusInternalServerError {
		t.Errorf("tick without leases: %d, want 500", status)
	}
	remove()
	if status, _, logs := invoke(t, url, "drain", queueBody(t, message)); status != http.StatusOK || !strings.Contains(logs, "1 drained") {
		t.Errorf("the same message later: %d %q", status, logs)
	}
}

// Messages that an earlier mode has left are dropped.
func TestLeftoverMessagesAreDropped(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	for _, mode := range []string{"timer", "continuous"} {
		url, _, logged := hosted(t, account.Env("HALLEY_MODE", mode))
		status, _, logs := invoke(t, url, "drain", queueBody(t, `{"function":"leaderboard","range":"0"}`))
		if status != http.StatusOK || !strings.Contains(logs, "HALLEY_MODE is not fanout") || !strings.Contains(logged.String(), "message dropped") {
			t.Errorf("mode %s: %d %q", mode, status, logs)
		}
	}
}

// The answer comes before functionTimeout, also from a handler that ignores its context.
func TestMessageIsAnsweredBeforeTheLimit(t *testing.T) {
	for _, stop := range []time.Duration{10 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			const limit = 5 * time.Minute
			drain := untilCtx(stop)
			f := &fanout{limit: limit, drain: func(ctx context.Context, _ trigger.RangeTask) (trigger.Summary, error) { return drain(ctx) }}
			in := invocation{Data: map[string]json.RawMessage{"range": json.RawMessage(`{"function":"orders","range":"0"}`)}}
			began := time.Now()
			answer, err := f.process(t.Context(), in, zap.NewNop())
			if took := time.Since(began); took >= limit || took < limit/2 {
				t.Errorf("answered after %v of %v", took, limit)
			}
			if stop < limit && (err != nil || !strings.Contains(strings.Join(answer.Logs, ";"), "next one")) {
				t.Errorf("time that is up: %q, %v", answer.Logs, err)
			}
			if stop > limit && (err == nil || !strings.Contains(err.Error(), "ignores the end of its context")) {
				t.Errorf("stuck: %v", err)
			}
			f.running.Wait()
		})
	}
}

// If one of several functions cannot be looked at, the messages of the others are sent:
// the Functions host would drop them if the invocation failed.
func TestMessagesAreSentDespiteErrors(t *testing.T) {
	for messages, want := range map[int]string{0: "403", 2: ""} {
		core, logs := observer.New(zap.ErrorLevel)
		f := &fanout{limit: time.Minute, dispatch: func(context.Context) ([]trigger.RangeTask, trigger.Summary, error) {
			return make([]trigger.RangeTask, messages), trigger.Summary{}, errors.New("read leases: 403")
		}}
		answer, err := f.tick(t.Context(), invocation{}, zap.New(core))
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("no message: %v", err)
		}
		if want == "" && (err != nil || len(answer.Outputs[rangesOutput].([]trigger.RangeTask)) != messages || logs.Len() != 1) {
			t.Errorf("%d messages: %v, %v, %d log lines", messages, answer, err, logs.Len())
		}
	}
}

// Handler calls that never return end the process, as in the mode timer.
func TestStuckMessagesReplaceTheProcess(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	account.Write(t, 0, 16)
	release := make(chan struct{})
	defer close(release)
	a := hosttest.OpenWith(t, account.Env("HALLEY_MODE", "fanout", "HALLEY_MAX_STUCK", "1", "HALLEY_HANDLER_TIMEOUT", "50ms", "HALLEY_STUCK_GRACE", "50ms"), hosting.Options{Grace: time.Second, Wrap: func(fn *trigger.Function) {
		fn.Handler = func(context.Context, trigger.Batch) error { <-release; return nil }
	}})
	var replaced atomic.Bool
	functions, wait := functionsOf(t.Context(), a, time.Minute, func() { replaced.Store(true) })
	answer, err := functions[functionName](t.Context(), invocation{}, a.Log)
	if err != nil {
		t.Fatal(err)
	}
	tasks := answer.Outputs[rangesOutput].([]trigger.RangeTask)
	for _, task := range tasks {
		message, err := json.Marshal(task)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := functions[drainFunction](t.Context(), invocation{Data: map[string]json.RawMessage{"m": message}}, a.Log); err != nil {
			t.Errorf("%s: %v", message, err)
		}
	}
	wait()
	if len(tasks) != 2 || !replaced.Load() {
		t.Errorf("%d messages, replaced %v", len(tasks), replaced.Load())
	}
}

// The mode is refused at the start if the package has no function for the messages:
// leases would be marked, and nothing would drain them.
func TestFanoutNeedsItsPackage(t *testing.T) {
	s := &settings.Settings{App: settings.App{Mode: settings.ModeFanout}}
	for name, test := range map[string]struct {
		dir     string
		refused bool
	}{
		"the default package": {functionsApp(t, nil), true},
		"the package":         {functionsApp(t, fanoutFiles()), false},
		"no package":          {t.TempDir(), false},
	} {
		if err := packagedForFanout(s, test.dir); (err != nil) != test.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// fanoutFiles are the files of a package with a queue.
func fanoutFiles() map[string]string {
	const queue = `"queueName":"halley-ranges","connection":"AzureWebJobsStorage"`
	return map[string]string{
		"host.json": `{"version":"2.0","extensionBundle":{"id":"Microsoft.Azure.Functions.ExtensionBundle","version":"[4.*, 5.0.0)"},"customHandler":{"description":{"defaultExecutablePath":"halley"}}}`,
		"function/function.json": `{"bindings":[{"type":"timerTrigger","direction":"in","name":"timer","schedule":"*/10 * * * * *"},
			{"type":"queue","direction":"out","name":"ranges",` + queue + `}]}`,
		"drain/function.json": `{"bindings":[{"type":"queueTrigger","direction":"in","name":"range",` + queue + `}]}`,
	}
}

func TestPackagingWithQueue(t *testing.T) {
	apptest.CleanEnv(t, nil)
	files := fanoutFiles()
	change := func(file, old, now string) map[string]string {
		changed := fanoutFiles()
		if !strings.Contains(changed[file], old) {
			t.Fatalf("%s has no %q", file, old)
		}
		changed[file] = strings.ReplaceAll(changed[file], old, now)
		return changed
	}
	rename := func(name string) map[string]string {
		changed := change("function/function.json", "halley-ranges", name)
		changed["drain/function.json"] = strings.ReplaceAll(files["drain/function.json"], "halley-ranges", name)
		return changed
	}
	for name, test := range map[string]struct {
		Mode  settings.Mode
		files map[string]string
		says  string // "": all is well
	}{
		"good":                   {settings.ModeFanout, files, ""},
		"settings refused":       {"", files, ""},
		"default package":        {settings.ModeFanout, nil, "package --fanout"},
		"default package, timer": {settings.ModeTimer, nil, ""},
		"source tree":            {settings.ModeFanout, map[string]string{"halley": "-"}, ""},
		"another mode":           {settings.ModeTimer, files, "set HALLEY_MODE=fanout"},
		"no bundle":              {settings.ModeFanout, change("host.json", `"extensionBundle"`, `"bundle"`), "extensionBundle"},
		"no output":              {settings.ModeFanout, map[string]string{"host.json": files["host.json"], "drain/function.json": files["drain/function.json"]}, "one queue output"},
		"output of another name": {settings.ModeFanout, change("function/function.json", `"ranges"`, `"queue"`), "no queue output called ranges"},
		"another queue":          {settings.ModeFanout, change("drain/function.json", "halley-ranges", "other"), "to which the timer writes"},
		"another connection":     {settings.ModeFanout, change("drain/function.json", "AzureWebJobsStorage", "Other"), "to which the timer writes"},
		"another trigger":        {settings.ModeFanout, change("drain/function.json", "queueTrigger", "blobTrigger"), "queueTrigger"},
		"broken":                 {settings.ModeFanout, change("drain/function.json", "]", ""), "drain/function.json"},
		"name from a setting":    {settings.ModeFanout, rename("%NO_SUCH_SETTING%"), "%NO_SUCH_SETTING%"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := checkedApp(t, functionsApp(t, test.files), test.Mode)
			checkPackaged(t, err, test.says)
		})
	}
}
