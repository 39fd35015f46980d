package cosmos

import (
	"context"
	"errors"
)

// Outcome is the meaning of an answer to the caller of a request, after the
// client has retried.
type Outcome int

// The outcomes.
const (
	OutcomeSucceeded     Outcome = iota
	OutcomeTransient             // send the same request again after a backoff
	OutcomeRangeGone             // the physical range split or merged: read the ranges again
	OutcomeConflict              // the document changed since it was read: read it, then decide
	OutcomeNotFound              // the document does not exist
	OutcomeUnknown               // a write may have been applied: read, then decide
	OutcomeContainerGone         // the container does not exist, or was created again under its old name
	OutcomeDenied                // the account denies the request: an operator must change a key or a role
	OutcomeInvalid               // the service rejects the request itself: repeating it is useless
	OutcomeCancelled             // the caller's context ended
)

// Classify returns the outcome that err, the error of a request, stands for. It
// is the one place above the client's own retries that compares status codes.
// Codes and substatus codes are those of azure-cosmos-dotnet-v3 (SubStatusCodes
// and the partitioning code of its ChangeFeedProcessor).
func Classify(err error) Outcome {
	if err == nil {
		return OutcomeSucceeded
	}
	if errors.Is(err, ErrOutcomeUnknown) {
		return OutcomeUnknown
	}
	status, substatus := Status(err)
	switch {
	case status == 0 && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return OutcomeCancelled
	case status == 0: // no answer, or one that cannot be parsed
		return OutcomeTransient
	case status == 410 && (substatus == 1002 || substatus == 1007):
		return OutcomeRangeGone
	case status == 410 && substatus == 1000, status == 404 && substatus == 1003, status == 400 && substatus == 1024:
		return OutcomeContainerGone
	case status == 404 && substatus == 1002: // this replica has not reached the session yet
		return OutcomeTransient
	case status == 404:
		return OutcomeNotFound
	case status == 412:
		return OutcomeConflict
	case status == 401, status == 403:
		return OutcomeDenied
	case status == 400, status == 405, status == 413:
		return OutcomeInvalid
	default: // 408, 409, 410/1008, 429, 449, 5xx
		return OutcomeTransient
	}
}

// Unsure reports whether only the stored document can tell if a write was applied.
func (o Outcome) Unsure() bool { return o == OutcomeConflict || o == OutcomeUnknown }
