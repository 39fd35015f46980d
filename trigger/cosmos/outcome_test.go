package cosmos

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestClassify(t *testing.T) {
	answer := func(status, substatus int) error { return &Error{Status: status, SubStatus: substatus} }
	for _, test := range []struct {
		err  error
		want Outcome
	}{
		{nil, Succeeded},
		{errOther, Transient},
		{context.Canceled, Cancelled},
		{context.DeadlineExceeded, Cancelled},
		{errors.Join(answer(503, 0), context.Canceled), Transient}, // the answer counts
		{errors.Join(ErrOutcomeUnknown, answer(503, 0)), Unknown},
		{errors.Join(ErrOutcomeUnknown, context.Canceled), Unknown},
		{answer(410, 1000), ContainerGone},
		{answer(410, 1002), RangeGone},
		{answer(410, 1007), RangeGone}, // a split or merge is in progress
		{answer(410, 1008), Transient},
		{answer(404, 0), NotFound},
		{answer(404, 1002), Transient},
		{answer(404, 1003), ContainerGone},
		{answer(400, 0), Invalid},
		{answer(400, 1024), ContainerGone},
		{answer(405, 0), Invalid},
		{answer(413, 0), Invalid},
		{answer(401, 0), Denied},
		{answer(403, 0), Denied},
		{answer(412, 0), Conflict},
		{answer(408, 0), Transient},
		{answer(409, 0), Transient},
		{answer(429, 3200), Transient},
		{answer(449, 0), Transient},
		{answer(500, 0), Transient},
		{answer(503, 0), Transient},
	} {
		for _, err := range []error{test.err, fmt.Errorf("outer: %w", test.err)} {
			if test.err == nil {
				err = nil
			}
			if got := Classify(err); got != test.want {
				t.Errorf("%v is %d, want %d", err, got, test.want)
			}
		}
	}
}
