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

// answerCode is the status and the substatus of an answer.
type answerCode struct{ status, substatus int }

// substatusOutcomes are the outcomes of answers whose substatus counts.
var substatusOutcomes = map[answerCode]Outcome{
	{400, 1024}: OutcomeContainerGone,
	{404, 1002}: OutcomeTransient, // this replica has not reached the session yet
	{410, 1000}: OutcomeContainerGone,
	{410, 1002}: OutcomeRangeGone,
	{410, 1007}: OutcomeRangeGone,
}

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
	if isContainerMissing(err) {
		return OutcomeContainerGone
	}
	status, substatus := Status(err)
	if outcome, ok := substatusOutcomes[answerCode{status, substatus}]; ok {
		return outcome
	}
	switch status {
	case 0: // no answer, or one that cannot be parsed
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return OutcomeCancelled
		}
		return OutcomeTransient
	case 404:
		return OutcomeNotFound
	case 412:
		return OutcomeConflict
	case 401, 403:
		return OutcomeDenied
	case 400, 405, 413:
		return OutcomeInvalid
	default: // 408, 409, 410/1008, 429, 449, 5xx
		return OutcomeTransient
	}
}

// Unsure reports whether only the stored document can tell if a write was applied.
func (o Outcome) Unsure() bool { return o == OutcomeConflict || o == OutcomeUnknown }
