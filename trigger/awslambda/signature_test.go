package awslambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
)

type concreteError struct{}

func (*concreteError) Error() string { return "concrete" }

type scoreList []score

func (l *scoreList) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, (*[]score)(l)) }

func TestHandlerRejectsInvalidFunctions(t *testing.T) {
	var nilFunc func(context.Context) error
	var nilHandler lambda.Handler
	tests := []struct {
		fn   any
		want string // in the error
	}{
		{nil, "lambda function is nil"},
		{nilHandler, "lambda function is nil"},
		{nilFunc, "it is nil"},
		{7, "int is not a Lambda function for documents: it is neither a function nor a lambda.Handler"},
		{func(...score) error { return nil }, "it is variadic"},
		{func(context.Context, ...score) {}, "it is variadic"},
		{func(_, _, _ int) {}, "it takes 3 parameters"},
		{func([]score, context.Context) {}, "the first of its two parameters is []awslambda.score, not context.Context"},
		{func(any, []score) {}, "the first of its two parameters is interface {}, not context.Context"},
		{func(fmt.Stringer) {}, "its event is fmt.Stringer"},
		{func(context.Context, io.Reader) error { return nil }, "its event is io.Reader"},
		{func(context.Context, []byte) ([]byte, error) { return nil, nil }, "its event is []uint8, which cannot hold an array of documents"},
		{func(string) {}, "its event is string"},
		{func([]string) {}, "its event is []string"},
		{func([]int) {}, "its event is []int"},
		{func([]map[int]any) {}, "its event is []map[int]interface {}"},
		{func([]fmt.Stringer) {}, "its event is []fmt.Stringer"},
		{func(score) {}, "its event is awslambda.score"},
		{func(map[string]any) {}, "its event is map[string]interface {}"},
		{func([10]score) {}, "its event is [10]awslambda.score"},
		{func(net.IP) {}, "its event is net.IP"},
		{func([]net.IP) {}, "its event is []net.IP"},
		{func(events.DynamoDBEvent) {}, "its event is events.DynamoDBEvent"},
		{func() (int, int, error) { return 0, 0, nil }, "it returns 3 values"},
		{func() int { return 0 }, "its last result is int, not error"},
		//lint:ignore ST1008 the wrong order is the test
		{func() (error, int) { return nil, 0 }, "its last result is int, not error"},
		{func() *concreteError { return nil }, "its last result is *awslambda.concreteError, not error"},
		{func() (chan int, error) { return nil, nil }, "its result is chan int, which has no JSON form"},
		{func() (func(), error) { return nil, nil }, "its result is func(), which has no JSON form"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%T", tt.fn), func(t *testing.T) {
			h, err := Handler(tt.fn, nil)
			if err == nil || h != nil {
				t.Fatal("it was accepted")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %q, which lacks %q", err, tt.want)
			}
			if tt.fn == nil {
				return
			}
			for _, part := range []string{fmt.Sprintf("%T", tt.fn), "func(context.Context, []Document) error"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error is %q, which lacks %q", err, part)
				}
			}
		})
	}
}

func TestHandlerAcceptsUnusualFunctions(t *testing.T) {
	type myContext = context.Context
	functions := []any{
		func(interface {
			Deadline() (time.Time, bool)
			Done() <-chan struct{}
			Err() error
			Value(any) any
		}, []score) {
		},
		func(myContext, scoreList) (chanText, error) { return nil, nil },
		func(*scoreList) net.Error { return nil },
		func([]time.Time) (io.Reader, error) { return nil, nil },
		func([]any) {},
		func([]*map[string]json.RawMessage) {},
		func(**[]**score) {},
	}
	for _, fn := range functions {
		if _, err := Handler(fn, nil); err != nil {
			t.Error(err)
		}
	}
}

type chanText chan int

func (chanText) MarshalText() ([]byte, error) { return nil, nil }

// Every function that Handler accepts is accepted by aws-lambda-go.
func TestAcceptedFunctionRuns(t *testing.T) {
	errCalled := errors.New("called")
	h := handler(t, func(context.Context, scoreList) (chanText, error) { return nil, errCalled }, nil)
	if err := h(t.Context(), batch(`{"player":"ada"}`)); !errors.Is(err, errCalled) {
		t.Error(err)
	}
}
