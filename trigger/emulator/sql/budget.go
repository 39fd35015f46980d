package sql

import (
	"context"
	"fmt"
)

// Limits of one run. Each is checked before or while the bytes are made, so that no
// query takes more memory or time than they allow, plus a small factor.
const (
	// maxValue bounds each string, array and object that an expression makes, in
	// bytes: the service's limit on a response,
	// https://learn.microsoft.com/azure/cosmos-db/concepts-limits.
	maxValue = 4 << 20

	// maxMade bounds the values that one row needs at the same time, with the rows of
	// subqueries that are being evaluated for it, in bytes.
	maxMade = 64 << 20

	// maxHeld bounds the rows that ORDER BY, GROUP BY, aggregates and DISTINCT keep
	// over all documents, in bytes. Parts of stored documents do not count.
	maxHeld = 128 << 20

	// maxWork bounds the work of a run. A unit is about a byte that is read, and takes
	// one to two nanoseconds: the service gives a page of results 5 seconds.
	maxWork = 5_000_000_000

	// workPerCheck is the work after which a run looks at its context again.
	workPerCheck = 1 << 20
)

// Work of the steps that do not depend on the size of values.
const (
	expressionWork = 64
	rowWork        = 128
)

// Bytes that a run keeps besides the text of values.
const (
	valueBytes = 56 // of a value
	entryBytes = 96 // of an element of a map or list
)

// spend counts work. It returns false if the run must stop.
func (r *run) spend(work int) bool {
	if r.work += int64(work); r.work >= r.checked+workPerCheck {
		r.check()
	}
	return r.err == nil
}

// check fails the run if its context has ended or its work is used up.
func (r *run) check() {
	r.checked = r.work
	if err := context.Cause(r.ctx); err != nil {
		r.fail(fmt.Errorf("query stopped: %w", err))
	}
	if r.work > r.most {
		r.fail(&Error{Code: codeResource, Message: fmt.Sprintf("The query takes more than %d units of work. Add filters, or read fewer documents at once.", r.most)})
	}
}

// fits returns false, and fails the run, if a value of so many bytes is too large.
func (r *run) fits(bytes int) bool {
	if bytes > maxValue {
		r.fail(&Error{Code: codeResource, Message: fmt.Sprintf("The query makes a value of more than %d bytes.", maxValue)})
	}
	return r.err == nil
}

// produce counts a value that an expression makes. It returns false if the run must stop.
func (r *run) produce(bytes int) bool { return r.fits(bytes) && r.produceAll(bytes) }

// produceAll counts several values.
func (r *run) produceAll(bytes int) bool {
	r.made += bytes
	return r.room() && r.spend(bytes)
}

// room returns false, and fails the run, if a row needs too much memory.
func (r *run) room() bool {
	if r.made+r.kept > maxMade {
		r.fail(&Error{Code: codeResource, Message: fmt.Sprintf("The query makes values of more than %d bytes for one row.", maxMade)})
	}
	return r.err == nil
}

// hold counts bytes that a statement keeps until its end, and with them the values
// made for the row at hand, of which it may keep any part. outermost says that the
// statement reads the documents; a subquery ends within one row. hold returns false
// if the run must stop.
func (r *run) hold(bytes int, outermost bool) bool {
	bytes += r.made
	if !outermost {
		r.kept += bytes
		return r.room() && r.spend(bytes)
	}
	if r.held += bytes; r.held > maxHeld {
		r.fail(heldTooMuch())
	}
	return r.spend(bytes)
}

func heldTooMuch() *Error {
	return &Error{Code: codeResource, Message: fmt.Sprintf("The query keeps more than %d bytes of results in memory. Add filters to reduce them.", maxHeld)}
}
