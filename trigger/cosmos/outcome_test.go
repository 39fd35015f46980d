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
		{nil, OutcomeSucceeded},
		{errOther, OutcomeTransient},
		{context.Canceled, OutcomeCancelled},
		{context.DeadlineExceeded, OutcomeCancelled},
		{errors.Join(answer(503, 0), context.Canceled), OutcomeTransient}, // the answer counts
		{errors.Join(ErrOutcomeUnknown, answer(503, 0)), OutcomeUnknown},
		{errors.Join(ErrOutcomeUnknown, context.Canceled), OutcomeUnknown},
		{answer(410, 1000), OutcomeContainerGone},
		{answer(410, 1002), OutcomeRangeGone},
		{answer(410, 1007), OutcomeRangeGone}, // a split or merge is in progress
		{answer(410, 1008), OutcomeTransient},
		{answer(404, 0), OutcomeNotFound},
		{answer(404, 1002), OutcomeTransient},
		{answer(404, 1003), OutcomeContainerGone},
		{answer(400, 0), OutcomeInvalid},
		{answer(400, 1024), OutcomeContainerGone},
		{answer(405, 0), OutcomeInvalid},
		{answer(413, 0), OutcomeInvalid},
		{answer(401, 0), OutcomeDenied},
		{answer(403, 0), OutcomeDenied},
		{answer(412, 0), OutcomeConflict},
		{answer(408, 0), OutcomeTransient},
		{answer(409, 0), OutcomeTransient},
		{answer(429, 3200), OutcomeTransient},
		{answer(449, 0), OutcomeTransient},
		{answer(500, 0), OutcomeTransient},
		{answer(503, 0), OutcomeTransient},
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
