package tests

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"halley/tests/long"
	"halley/tests/runtimeapi"
	"halley/trigger"
)

// lambdaApp returns a Lambda function with the packaged binary as its bootstrap.
func lambdaApp(t *testing.T, settings map[string]string, timeout time.Duration) *runtimeapi.Function {
	t.Helper()
	f, err := runtimeapi.New(filepath.Join(unpacked(t), "halley"), &runtimeapi.Options{Environment: settings, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		if t.Failed() {
			t.Log(f.Output())
		}
	})
	return f
}

// scheduled is the event of an EventBridge schedule.
const scheduled = `{"version":"0","id":"53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa","detail-type":"Scheduled Event",` +
	`"source":"aws.events","account":"123456789012","time":"2026-01-05T10:00:00Z","region":"eu-west-1",` +
	`"resources":["arn:aws:events:eu-west-1:123456789012:rule/tick"],"detail":{}}`

func drainByLambda(t *testing.T, f *runtimeapi.Function) (trigger.Summary, runtimeapi.Result) {
	t.Helper()
	result := f.Invoke(t.Context(), runtimeapi.Event{Payload: []byte(scheduled)})
	if result.Err != nil {
		t.Fatalf("invocation: %v", result.Err)
	}
	var summary trigger.Summary
	if err := json.Unmarshal(result.Payload, &summary); err != nil {
		t.Fatalf("answer %s: %v", result.Payload, err)
	}
	t.Logf("answer %s with %v left", result.Payload, result.Remaining)
	return summary, result
}

func TestLambdaInvocationDrains(t *testing.T) {
	if testing.Short() {
		t.Skip("packages the app")
	}
	t.Parallel()
	a := startAccount(t, 4)
	b := newBoard(t)
	r := newRecord(t)
	f := lambdaApp(t, b.settings(a), 20*time.Second)
	l := a.distinct(r)
	l.some(t, 1, 3)
	summary, _ := drainByLambda(t, f)
	if summary.Changes != 3*l.players || summary.Ranges != 4 || summary.Behind != 0 {
		t.Errorf("summary %+v, want %d changes of 4 ranges", summary, 3*l.players)
	}
	if missing := b.missing(t, r); missing != 0 {
		t.Errorf("%d changes are on no board", missing)
	}
	if summary, _ := drainByLambda(t, f); summary.Changes != 0 || summary.Idle != 4 {
		t.Errorf("a second invocation found %+v", summary)
	}
	if f.Starts() != 1 {
		t.Errorf("%d processes", f.Starts())
	}
}

// If a drain never catches up, it ends a margin before the deadline, and the next
// invocation continues it.
func TestLambdaAnswersBeforeDeadline(t *testing.T) {
	long.Only(t, "runs for the whole of a timeout")
	t.Parallel()
	a := startAccount(t, 2)
	b := newBoard(t)
	slow := b.slowly(t, 50*time.Millisecond)
	r := newRecord(t)
	f := lambdaApp(t, b.smallBatches(a), 8*time.Second)
	l := a.distinct(r)
	l.some(t, 1, 5) // the work of a second, so that the drain does not catch up before the load has begun
	stop := l.from(6).start(t)
	_, result := drainByLambda(t, f)
	if result.Remaining < 200*time.Millisecond || result.Remaining > 7*time.Second {
		t.Errorf("answered %v before the deadline, while changes were coming in", result.Remaining)
	}
	stop()
	slow.over()
	for b.missing(t, r) > 0 {
		drainByLambda(t, f)
	}
	if f.Starts() != 1 {
		t.Errorf("%d processes: the deadline killed one", f.Starts())
	}
}
