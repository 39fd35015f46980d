// Package awslambda makes handlers of functions that were written for AWS
// Lambda with github.com/aws/aws-lambda-go.
//
// [Handler] takes whatever [lambda.Start] takes. The function runs in process:
// no Runtime API and nothing of AWS is needed. Its event is the JSON array of
// the batch's documents, in feed order, as the Cosmos DB trigger of Azure
// Functions passes them; a function that takes a slice of structs gets one
// element per document.
//
// A function fails a batch by its error or by a panic, and the same documents
// come again in a later call with another AwsRequestID. The value that it
// returns beside the error is ignored. Other than on Lambda, calls for
// different ranges of the container run concurrently in one process.
package awslambda

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/google/uuid"

	"halley/trigger"
)

// Options say how the event is decoded. They do not act on a [lambda.Handler],
// which gets the event's bytes.
type Options struct {
	UseNumber             bool // numbers in an any are json.Number, not float64
	DisallowUnknownFields bool // a document with a field that the struct does not have fails the batch
}

// Handler adapts fn, a function as [lambda.Start] documents it or a
// [lambda.Handler]. An fn that aws-lambda-go would refuse at each call, or
// whose event type cannot hold an array of documents, is an error here.
//
// The context of a call carries a [lambdacontext.LambdaContext]:
//   - AwsRequestID is a new UUID for every attempt;
//   - InvokedFunctionArn is arn:aws:lambda:local:000000000000:function:NAME,
//     where NAME is the function's name in Halley, or halley where it has none;
//   - ClientContext.Client.AppTitle is halley, and ClientContext.Custom holds
//     range, attempt and epoch of the batch, see [trigger.Batch].
//
// Package variables such as [lambdacontext.FunctionName] come from Lambda's
// own environment variables and are empty elsewhere.
func Handler(fn any, opts *Options) (trigger.Handler, error) {
	if err := validate(fn); err != nil {
		return nil, err
	}
	return newFunction(fn, opts).handle, nil
}

// function is fn with adapters for its concurrent callers. An adapter's result
// is a slice of a buffer that its next call overwrites
// (aws/aws-lambda-go#639), so no two callers share one.
type function struct{ adapters sync.Pool }

func newFunction(fn any, opts *Options) *function {
	var decoding []lambda.Option
	if opts != nil {
		decoding = append(decoding,
			lambda.WithUseNumber(opts.UseNumber),
			lambda.WithDisallowUnknownFields(opts.DisallowUnknownFields))
	}
	return &function{adapters: sync.Pool{New: func() any {
		return lambda.NewHandlerWithOptions(fn, decoding...)
	}}}
}

func (f *function) handle(ctx context.Context, b trigger.Batch) error {
	return f.invoke(lambdacontext.NewContext(ctx, describe(b)), event(b.Changes))
}

// invoke calls the function once. An adapter whose call panicked is dropped.
func (f *function) invoke(ctx context.Context, event []byte) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicked(value, debug.Stack())
		}
	}()
	adapter := f.adapters.Get().(lambda.Handler)
	_, err = adapter.Invoke(ctx, event)
	f.adapters.Put(adapter)
	return failed(err)
}

// event is the JSON array of the documents.
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

func describe(b trigger.Batch) *lambdacontext.LambdaContext {
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

// Error is a failure that the function described itself, with a
// [messages.InvokeResponse_Error] that it returned or panicked with.
type Error struct{ Response messages.InvokeResponse_Error }

// Error gives type and message; the stack trace is in Response.
func (e *Error) Error() string {
	if e.Response.Type == "" {
		return e.Response.Message
	}
	return fmt.Sprintf("%s: %s", e.Response.Type, e.Response.Message)
}

// Unwrap gives the value itself, for [errors.As].
func (e *Error) Unwrap() error { return e.Response }

// failed is err in a form that reads well: the text of an InvokeResponse_Error
// is a Go literal.
func failed(err error) error {
	if response, ok := err.(messages.InvokeResponse_Error); ok {
		return &Error{response}
	}
	return err
}

// panicked turns a panic into an error. One with an InvokeResponse_Error is
// how a Lambda function fails a call from deep inside, as in aws-lambda-go.
func panicked(value any, stack []byte) error {
	if response, ok := value.(messages.InvokeResponse_Error); ok {
		return &Error{response}
	}
	return &trigger.PanicError{Value: value, Stack: stack}
}
