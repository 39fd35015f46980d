package awslambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/handlertrace"
	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/google/go-cmp/cmp"

	"halley/trigger"
	"halley/trigger/cosmos"
)

type score struct {
	Player string `json:"player"`
	Score  int    `json:"score"`
}

func batch(documents ...string) trigger.Batch {
	b := trigger.Batch{Function: "scores", Range: cosmos.Range{ID: "3"}, Attempt: 2, Epoch: 7}
	for _, d := range documents {
		b.Changes = append(b.Changes, trigger.Change{Document: json.RawMessage(d)})
	}
	return b
}

func handler(t *testing.T, fn any, opts *Options) trigger.Handler {
	t.Helper()
	h, err := Handler(fn, opts)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// raw is a lambda.Handler that gets the bytes of the event.
type raw func(ctx context.Context, event []byte) ([]byte, error)

func (r raw) Invoke(ctx context.Context, event []byte) ([]byte, error) { return r(ctx, event) }

func TestHandlerAcceptsEveryFunctionShape(t *testing.T) {
	errBoom := errors.New("boom")
	want := []score{{"ada", 1}, {"bob", 2}}
	var got []score
	var called bool
	see := func(scores []score) { got, called = scores, true }

	shapes := []struct {
		name  string
		fn    func(err error) any // a function that records its event and returns err if it can
		event bool                // takes the event
		fails bool                // can return an error
	}{
		{"func()", func(error) any { return func() { see(nil) } }, false, false},
		{"func() error", func(err error) any { return func() error { see(nil); return err } }, false, true},
		{"func() (out, error)", func(err error) any { return func() (int, error) { see(nil); return 1, err } }, false, true},
		{"func(in)", func(error) any { return func(s []score) { see(s) } }, true, false},
		{"func(in) error", func(err error) any { return func(s []score) error { see(s); return err } }, true, true},
		{"func(in) (out, error)", func(err error) any { return func(s []score) (int, error) { see(s); return 1, err } }, true, true},
		{"func(ctx)", func(error) any { return func(context.Context) { see(nil) } }, false, false},
		{"func(ctx) error", func(err error) any { return func(context.Context) error { see(nil); return err } }, false, true},
		{"func(ctx) (out, error)", func(err error) any { return func(context.Context) (int, error) { see(nil); return 1, err } }, false, true},
		{"func(ctx, in)", func(error) any { return func(_ context.Context, s []score) { see(s) } }, true, false},
		{"func(ctx, in) error", func(err error) any { return func(_ context.Context, s []score) error { see(s); return err } }, true, true},
		{"func(ctx, in) (out, error)", func(err error) any {
			return func(_ context.Context, s []score) (string, error) { see(s); return "ok", err }
		}, true, true},
		{"lambda.Handler", func(err error) any {
			return raw(func(_ context.Context, event []byte) ([]byte, error) {
				var s []score
				if err := json.Unmarshal(event, &s); err != nil {
					return nil, err
				}
				see(s)
				return nil, err
			})
		}, true, true},
		{"lambda.NewHandler", func(err error) any {
			return lambda.NewHandler(func(s []score) error { see(s); return err })
		}, true, true},
	}
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			got, called = nil, false
			b := batch(`{"player":"ada","score":1}`, `{"player":"bob","score":2}`)
			if err := handler(t, shape.fn(nil), nil)(t.Context(), b); err != nil || !called {
				t.Fatalf("handler: %v, called: %v", err, called)
			}
			if shape.event {
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
			}
			if shape.fails {
				if err := handler(t, shape.fn(errBoom), nil)(t.Context(), b); !errors.Is(err, errBoom) {
					t.Errorf("error of the function became %v", err)
				}
			}
		})
	}
}

func TestEventDecodesIntoParameterType(t *testing.T) {
	const a, b = `{"player":"ada","score":1}`, `{"player":"bob","n":12345678901234567890}`
	var got string
	note := func(v any) error {
		text, err := json.Marshal(v)
		got = string(text)
		return err
	}
	tests := []struct {
		name string
		fn   any
		opts *Options
		want string
	}{
		{"raw array", func(r json.RawMessage) error { return note(r) }, nil, "[" + a + "," + b + "]"},
		{"raw documents", func(r []json.RawMessage) error { return note(r) }, nil, "[" + a + "," + b + "]"},
		{"pointer to slice of pointers", func(r *[]*score) error { return note(r) }, nil, `[{"player":"ada","score":1},{"player":"bob","score":0}]`},
		{"any", func(r any) error { return note(r) }, nil, `[{"player":"ada","score":1},{"n":12345678901234567000,"player":"bob"}]`},
		{"any with numbers", func(r any) error { return note(r) }, &Options{UseNumber: true}, `[{"player":"ada","score":1},{"n":12345678901234567890,"player":"bob"}]`},
		{"maps", func(r []map[string]any) error { return note(len(r)) }, nil, `2`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := handler(t, tt.fn, tt.opts)(t.Context(), batch(a, b)); err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestUndecodableDocumentFailsBatch(t *testing.T) {
	called := false
	fn := func([]score) { called = true }
	tests := []struct {
		name, document string
		opts           *Options
	}{
		{"wrong type", `{"score":"one"}`, nil},
		{"unknown field", `{"player":"ada","club":"x"}`, &Options{DisallowUnknownFields: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := handler(t, fn, tt.opts)(t.Context(), batch(`{"player":"ada"}`, tt.document))
			if err == nil || called {
				t.Errorf("error %v, called %v", err, called)
			}
		})
	}
}

func TestEventAllocatesOnce(t *testing.T) {
	b := batch(`{"a":1}`, `{"b":[2,3]}`, `{}`)
	if got, want := string(event(b.Changes)), `[{"a":1},{"b":[2,3]},{}]`; got != want {
		t.Errorf("event is %s, want %s", got, want)
	}
	var built []byte
	if n := testing.AllocsPerRun(10, func() { built = event(b.Changes) }); n != 1 || len(built) != cap(built) {
		t.Errorf("%v allocations, %d of %d bytes used", n, len(built), cap(built))
	}
}

// Results of any type are ignored.
func TestResultsAreIgnored(t *testing.T) {
	closed := false
	results := []any{
		func() (any, error) { return nil, nil },
		func() ([]byte, error) { return bytes.Repeat([]byte("x"), 1<<20), nil },
		func() (io.Reader, error) {
			return struct {
				io.Reader
				io.Closer
			}{strings.NewReader("text"), closer(func() { closed = true })}, nil
		},
		func() (map[string]any, error) { return map[string]any{"batchItemFailures": []any{}}, nil },
	}
	for _, fn := range results {
		if err := handler(t, fn, nil)(t.Context(), batch(`{}`)); err != nil {
			t.Errorf("%T: %v", fn, err)
		}
	}
	if !closed {
		t.Error("a result that is a Closer was not closed")
	}
}

type closer func()

func (c closer) Close() error { c(); return nil }

func TestContextDescribesBatch(t *testing.T) {
	var seen []lambdacontext.LambdaContext
	type key struct{}
	h := handler(t, func(ctx context.Context) error {
		lc, ok := lambdacontext.FromContext(ctx)
		if !ok || ctx.Value(key{}) != "caller's" {
			return errors.New("context is incomplete")
		}
		seen = append(seen, *lc)
		return nil
	}, nil)
	ctx := context.WithValue(t.Context(), key{}, "caller's")
	b := batch(`{}`)
	for range 2 {
		if err := h(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	b.Function = ""
	if err := h(ctx, b); err != nil {
		t.Fatal(err)
	}

	if seen[0].AwsRequestID == "" || seen[0].AwsRequestID == seen[1].AwsRequestID {
		t.Errorf("request ids of two attempts: %q and %q", seen[0].AwsRequestID, seen[1].AwsRequestID)
	}
	if got, want := seen[0].InvokedFunctionArn, "arn:aws:lambda:local:000000000000:function:scores"; got != want {
		t.Errorf("ARN is %s, want %s", got, want)
	}
	if got, want := seen[2].InvokedFunctionArn, "arn:aws:lambda:local:000000000000:function:halley"; got != want {
		t.Errorf("ARN without a name is %s, want %s", got, want)
	}
	want := lambdacontext.ClientContext{
		Client: lambdacontext.ClientApplication{AppTitle: "halley"},
		Custom: map[string]string{"range": "3", "attempt": "2", "epoch": "7"},
	}
	if d := cmp.Diff(want, seen[0].ClientContext); d != "" {
		t.Error(d)
	}
}

func explode(value any) func() error { return func() error { panic(value) } }

func TestPanicFailsAttempt(t *testing.T) {
	errCause := errors.New("cause")
	h := handler(t, explode(errCause), nil)
	for range 3 { // the pool stays usable
		err := h(t.Context(), batch(`{}`))
		var panicked *trigger.PanicError
		if !errors.As(err, &panicked) || !errors.Is(err, errCause) {
			t.Fatalf("panic became %#v", err)
		}
		if !strings.Contains(string(panicked.Stack), "explode.func1") {
			t.Errorf("stack does not show the function:\n%s", panicked.Stack)
		}
	}
}

func TestAdapterIsDroppedAfterPanic(t *testing.T) {
	fail := true
	h := handler(t, func(scores []score) ([]score, error) {
		if fail {
			panic(fmt.Sprint(len(scores)))
		}
		return scores, nil
	}, nil)
	for range 20 {
		err := h(t.Context(), batch(`{"player":"ada"}`))
		if (err != nil) != fail {
			t.Fatalf("fail is %v, error is %v", fail, err)
		}
		fail = !fail
	}
}

func TestInvokeResponseErrorIsReadable(t *testing.T) {
	described := messages.InvokeResponse_Error{
		Message:    "no such player",
		Type:       "NotFound",
		StackTrace: []*messages.InvokeResponse_Error_StackFrame{{Path: "a.go", Line: 1, Label: "f"}},
	}
	functions := map[string]any{
		"returned":      func() error { return described },
		"panicked with": explode(described),
	}
	for name, fn := range functions {
		t.Run(name, func(t *testing.T) {
			err := handler(t, fn, nil)(t.Context(), batch(`{}`))
			if err == nil || err.Error() != "NotFound: no such player" {
				t.Fatalf("error is %v", err)
			}
			var response messages.InvokeResponse_Error
			if !errors.As(err, &response) || len(response.StackTrace) != 1 {
				t.Errorf("error does not hold the response: %#v", err)
			}
			var panicked *trigger.PanicError
			if errors.As(err, &panicked) {
				t.Error("error counts as a panic")
			}
		})
	}
	untyped := &Error{messages.InvokeResponse_Error{Message: "only text"}}
	if untyped.Error() != "only text" {
		t.Errorf("error without type reads %q", untyped)
	}
}

// Each concurrent call sees its own event only, even if results share the
// buffers of aws-lambda-go and other calls panic.
func TestConcurrentCallsDoNotShareEvents(t *testing.T) {
	functions := map[string]any{
		"function": func(scores []score) ([]score, error) { return checkSame(scores) },
		"handler":  lambda.NewHandler(func(scores []score) ([]score, error) { return checkSame(scores) }),
	}
	for name, fn := range functions {
		t.Run(name, func(t *testing.T) {
			h := handler(t, fn, nil)
			var callers sync.WaitGroup
			for caller := range 8 {
				callers.Go(func() {
					for call := range 50 {
						document := fmt.Sprintf(`{"player":"p%d","score":%d}`, caller, call)
						if call%10 == 9 {
							document = `{"player":"panic"}`
						}
						err := h(t.Context(), batch(document, document, document))
						if (err != nil) != (call%10 == 9) {
							t.Errorf("caller %d call %d: %v", caller, call, err)
						}
					}
				})
			}
			callers.Wait()
		})
	}
}

func checkSame(scores []score) ([]score, error) {
	if scores[0].Player == "panic" {
		panic("asked to")
	}
	for _, s := range scores {
		if s != scores[0] {
			return nil, fmt.Errorf("events were mixed: %v", scores)
		}
		runtime.Gosched()
	}
	return scores, nil
}

// A trace of the context sees the event, whoever decodes it.
func TestTraceSeesTheEvent(t *testing.T) {
	for _, opts := range []*Options{nil, {DisallowUnknownFields: true}} {
		var seen any
		ctx := handlertrace.NewContext(t.Context(), handlertrace.HandlerTrace{RequestEvent: func(_ context.Context, event any) { seen = event }})
		if err := handler(t, func([]score) {}, opts)(ctx, batch(`{"player":"ada","score":1}`)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any([]score{{"ada", 1}}), seen); diff != "" {
			t.Error(diff)
		}
	}
}
