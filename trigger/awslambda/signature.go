package awslambda

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/aws/aws-lambda-go/lambda"
)

var (
	contextType         = reflect.TypeFor[context.Context]()
	errorType           = reflect.TypeFor[error]()
	readerType          = reflect.TypeFor[io.Reader]()
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	marshalerType       = reflect.TypeFor[json.Marshaler]()
	textMarshalerType   = reflect.TypeFor[encoding.TextMarshaler]()
)

// validate rejects functions that would fail every call: those that
// aws-lambda-go rejects only when they are called (package lambda, func
// reflectHandler), and those whose event or result has no JSON form.
func validate(fn any) error {
	if fn == nil {
		return errors.New("lambda function is nil")
	}
	if _, ok := fn.(lambda.Handler); ok {
		return nil
	}
	t := reflect.TypeOf(fn)
	if err := validateFunc(fn, t); err != nil {
		return fmt.Errorf("%s is not a Lambda function for documents: %w; it must look like func(context.Context, []Document) error: "+
			"at most a context and the event in, at most a result and an error out", t, err)
	}
	return nil
}

func validateFunc(fn any, t reflect.Type) error {
	switch {
	case t.Kind() != reflect.Func:
		return errors.New("it is neither a function nor a lambda.Handler")
	case reflect.ValueOf(fn).IsNil():
		return errors.New("it is nil")
	case t.IsVariadic():
		return errors.New("it is variadic")
	}
	if err := validateInputs(t); err != nil {
		return err
	}
	return validateOutputs(t)
}

func validateInputs(t reflect.Type) error {
	switch t.NumIn() {
	case 0:
		return nil
	case 1:
		if isContext(t.In(0)) {
			return nil
		}
		return validateEvent(t.In(0))
	case 2:
		if !isContext(t.In(0)) {
			return fmt.Errorf("the first of its two parameters is %s, not context.Context", t.In(0))
		}
		return validateEvent(t.In(1))
	}
	return fmt.Errorf("it takes %d parameters", t.NumIn())
}

// sliceEvent returns the event of a valid function if it is a slice with an element for each
// document, else nil.
func sliceEvent(fn any) reflect.Type {
	t := reflect.TypeOf(fn)
	if _, ok := fn.(lambda.Handler); ok || t.NumIn() == 0 {
		return nil
	}
	event := t.In(t.NumIn() - 1)
	if _, own := decodesItself(event); own || event.Kind() != reflect.Slice {
		return nil
	}
	return event
}

// isContext reports whether t is an interface with exactly the methods of
// context.Context.
func isContext(t reflect.Type) bool {
	return t.Kind() == reflect.Interface && t.Implements(contextType) && contextType.Implements(t)
}

func validateEvent(t reflect.Type) error {
	if holdsDocuments(t) {
		return nil
	}
	return fmt.Errorf("its event is %s, which cannot hold an array of documents; "+
		"take a slice of a struct, []json.RawMessage, json.RawMessage for the raw array, or any", t)
}

// holdsDocuments reports whether an array of objects decodes into t. Arrays of
// fixed length do not qualify, because decoding drops the elements beyond their
// length.
func holdsDocuments(t reflect.Type) bool {
	if verdict, ok := decodesItself(t); ok {
		return verdict
	}
	switch t.Kind() {
	case reflect.Pointer:
		return holdsDocuments(t.Elem())
	case reflect.Slice:
		return holdsDocument(t.Elem())
	}
	return false
}

func holdsDocument(t reflect.Type) bool {
	if verdict, ok := decodesItself(t); ok {
		return verdict
	}
	switch t.Kind() {
	case reflect.Pointer:
		return holdsDocument(t.Elem())
	case reflect.Struct:
		return true
	case reflect.Map:
		return t.Key().Kind() == reflect.String
	}
	return false
}

// decodesItself decides about interfaces and types with an unmarshal method,
// for which the kind does not matter; ok is false for all other types.
func decodesItself(t reflect.Type) (verdict, ok bool) {
	switch {
	case t.Kind() == reflect.Interface:
		return t.NumMethod() == 0, true
	case reflect.PointerTo(t).Implements(unmarshalerType):
		return true, true
	case reflect.PointerTo(t).Implements(textUnmarshalerType):
		return false, true
	}
	return false, false
}

func validateOutputs(t reflect.Type) error {
	switch t.NumOut() {
	case 0:
		return nil
	case 1:
		return validateError(t.Out(0))
	case 2:
		if err := validateResult(t.Out(0)); err != nil {
			return err
		}
		return validateError(t.Out(1))
	}
	return fmt.Errorf("it returns %d values", t.NumOut())
}

// validateError requires an interface: a nil pointer of a concrete error type
// would be a non-nil error.
func validateError(t reflect.Type) error {
	if t.Kind() == reflect.Interface && t.Implements(errorType) {
		return nil
	}
	return fmt.Errorf("its last result is %s, not error", t)
}

func validateResult(t reflect.Type) error {
	if t.Implements(readerType) || t.Implements(marshalerType) || t.Implements(textMarshalerType) {
		return nil
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("its result is %s, which has no JSON form", t)
	}
	return nil
}
