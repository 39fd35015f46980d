// Package awslambda adapts functions that were written for AWS Lambda with
// github.com/aws/aws-lambda-go.
//
// [Handler] accepts every function that [lambda.Start] accepts. The function
// runs in process: it needs no Runtime API and no AWS service. Its event is a
// JSON array of the batch's documents in feed order, in the format of the Cosmos
// DB trigger of Azure Functions. If the function takes a slice of structs, it
// gets one element for each document.
//
// If the function returns an error or panics, the batch fails, and the same
// documents are delivered again in a later call with another AwsRequestID. Any
// other result is ignored. Unlike on Lambda, calls for different ranges of the
// container run concurrently in one process.
package awslambda

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/handlertrace"
	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/google/uuid"

	"halley/trigger"
	"halley/trigger/internal/documents"
)

// Options are the options of [Handler] for decoding events. They have no effect
// on a [lambda.Handler], which decodes its own events.
type Options struct {
	UseNumber             bool // decode numbers in an any as json.Number, not float64
	DisallowUnknownFields bool // fail the batch if a document has a field that the struct lacks
}

// Handler adapts fn, which must be a function as [lambda.Start] documents it or
// a [lambda.Handler]. Handler returns an error if aws-lambda-go would reject
// every call of fn, or if its event type cannot hold an array of documents.
//
// The context of a call has a [lambdacontext.LambdaContext]:
//   - AwsRequestID is a new UUID for each attempt;
//   - InvokedFunctionArn is arn:aws:lambda:local:000000000000:function:NAME,
//     with the name of the function in Halley, or halley if it has none;
//   - ClientContext.Client.AppTitle is halley, and ClientContext.Custom has the
//     range, attempt and epoch of the batch, see [trigger.Batch].
//
// Package variables such as [lambdacontext.FunctionName] are set from
// environment variables that only Lambda sets. When Halley runs elsewhere, they
// are empty.
func Handler(fn any, opts *Options) (trigger.Handler, error) {
	if err := validate(fn); err != nil {
		return nil, err
	}
	return newFunction(fn, opts).handle, nil
}

// function holds adapters of fn, one for each concurrent call. The result of an
// adapter is a slice of a buffer that its next call overwrites
// (aws/aws-lambda-go#639), so calls never share an adapter.
type function struct {
	event    reflect.Type // that is decoded here, a slice with an element for each document; nil if the adapter decodes it
	adapters sync.Pool
}

// newFunction decodes events that are slices without options itself, as encoding/json decodes each
// document: the adapter would read an array of all of them through a [json.Decoder], which takes a
// fifth longer.
func newFunction(fn any, opts *Options) *function {
	f := &function{}
	var decoding []lambda.Option
	if opts != nil && *opts != (Options{}) {
		decoding = append(decoding,
			lambda.WithUseNumber(opts.UseNumber),
			lambda.WithDisallowUnknownFields(opts.DisallowUnknownFields))
	} else if f.event = sliceEvent(fn); f.event != nil {
		fn = withDecodedEvent(fn)
	}
	f.adapters.New = func() any { return lambda.NewHandlerWithOptions(fn, decoding...) }
	return f
}

func (f *function) handle(ctx context.Context, b trigger.Batch) error {
	ctx = lambdacontext.NewContext(ctx, lambdaContext(b))
	if f.event == nil {
		return f.invoke(ctx, event(b.Changes))
	}
	elements := reflect.MakeSlice(f.event, len(b.Changes), len(b.Changes))
	if failed, err := documents.Decode(elements, func(i int) []byte { return b.Changes[i].Document }); err != nil {
		return fmt.Errorf("decode document at lsn %d: %w", b.Changes[failed].LSN, err)
	}
	return f.invoke(context.WithValue(ctx, eventKey{}, elements), nil)
}

// eventKey is the key of the decoded event in the context of a call.
type eventKey struct{}

// withDecodedEvent returns a function of a context that calls fn with the event in it.
func withDecodedEvent(fn any) any {
	called := reflect.ValueOf(fn)
	var results []reflect.Type
	for i := range called.Type().NumOut() {
		results = append(results, called.Type().Out(i))
	}
	wrapper := reflect.FuncOf([]reflect.Type{contextType}, results, false)
	return reflect.MakeFunc(wrapper, func(in []reflect.Value) []reflect.Value {
		ctx := in[0].Interface().(context.Context)
		event := ctx.Value(eventKey{}).(reflect.Value)
		if trace := handlertrace.FromContext(ctx); trace.RequestEvent != nil { // as the adapter does
			trace.RequestEvent(ctx, event.Interface())
		}
		if called.Type().NumIn() == 1 {
			return called.Call([]reflect.Value{event})
		}
		return called.Call([]reflect.Value{in[0], event})
	}).Interface()
}

// invoke calls the function once. If the call panics, its adapter is not
// reused.
func (f *function) invoke(ctx context.Context, event []byte) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicError(value, debug.Stack())
		}
	}()
	adapter := f.adapters.Get().(lambda.Handler)
	_, err = adapter.Invoke(ctx, event)
	f.adapters.Put(adapter)
	return describeError(err)
}

// event returns the JSON array of the documents.
func event(changes []trigger.Change) []byte {
	size := len(changes) + 1
	for _, c := range changes {
		size += len(c.Document)
	}
	array := append(make([]byte, 0, size), '[')
	for i, c := range changes {
		if i > 0 {
			array = append(array, ',')
		}
		array = append(array, c.Document...)
	}
	return append(array, ']')
}

func lambdaContext(b trigger.Batch) *lambdacontext.LambdaContext {
	name := b.Function
	if name == "" {
		name = "halley"
	}
	return &lambdacontext.LambdaContext{
		AwsRequestID:       uuid.NewString(),
		InvokedFunctionArn: "arn:aws:lambda:local:000000000000:function:" + name,
		ClientContext: lambdacontext.ClientContext{
			Client: lambdacontext.ClientApplication{AppTitle: "halley"},
			Custom: map[string]string{
				"range":   b.Range.ID,
				"attempt": strconv.Itoa(b.Attempt),
				"epoch":   strconv.FormatInt(b.Epoch, 10),
			},
		},
	}
}

// Error is a failure that the function has described with a
// [messages.InvokeResponse_Error], returned or passed to panic.
type Error struct{ Response messages.InvokeResponse_Error }

// Error returns type and message. The stack trace is in Response.
func (e *Error) Error() string {
	if e.Response.Type == "" {
		return e.Response.Message
	}
	return fmt.Sprintf("%s: %s", e.Response.Type, e.Response.Message)
}

// Unwrap returns Response, for [errors.As].
func (e *Error) Unwrap() error { return e.Response }

// describeError wraps a messages.InvokeResponse_Error, whose own text is a Go
// literal, in an [Error]. It returns any other error unchanged.
func describeError(err error) error {
	if response, ok := err.(messages.InvokeResponse_Error); ok {
		return &Error{response}
	}
	return err
}

// panicError returns the error for a panic. If the value is a
// messages.InvokeResponse_Error, it is an [Error]: Lambda functions panic with
// one to fail a call, as in aws-lambda-go.
func panicError(value any, stack []byte) error {
	if response, ok := value.(messages.InvokeResponse_Error); ok {
		return &Error{response}
	}
	return &trigger.PanicError{Value: value, Stack: stack}
}
