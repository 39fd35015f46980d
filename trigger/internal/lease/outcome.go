package lease

import "errors"

// Outcomes that the owner of a lease has to tell apart.
var (
	// ErrLost means that this host does not own the lease any more: another owner
	// has it, or the document is gone. The owner stops without another write.
	ErrLost = errors.New("lease lost")

	// ErrChanged means that a write met a version of the document that another host
	// wrote, such as a handover request, and that this host still owns the lease. The
	// write is repeated.
	ErrChanged = errors.New("changed since it was read")

	// ErrSplit means that the physical range of the lease has split, or has merged
	// into one that holds more keys: the lease has to give way to its children.
	ErrSplit = errors.New("range split or merged")

	// ErrSetup marks an error that repeats until an operator changes a setting, a
	// container or a role.
	ErrSetup = errors.New("cannot start")

	// ErrForeign marks a lease whose format Halley must neither read nor write.
	ErrForeign = errors.New("written by the Java change feed processor, which cannot share leases with Halley; " +
		"give this function another lease container prefix")

	// ErrRangesChanging means that the account does not list the ranges yet that
	// replace the range of the lease. Try again after a backoff.
	ErrRangesChanging = errors.New("no partition key range answers for the lease yet")

	// ErrMergedUnknown is the one merge that a host cannot follow without a guess
	// that might lose changes.
	ErrMergedUnknown = errors.New("the lease's partition key range has merged with others, and the lease holds no FeedRange " +
		"that says which part of them is its own; add FeedRange to the document, or delete it to read the range again from the start")

	// errWhole ends the split of a range that has merged again before any child
	// was created.
	errWhole = errors.New("the range is whole again")
)
