package trigger

import (
	"context"
	"sync/atomic"
)

// sharedLists are lists of one kind, such as a function's dead letters. Callers share
// them, so that 1,000 ranges that begin together cost one list or two.
type sharedLists[T any] struct {
	begun  atomic.Int64  // number of lists that have begun
	turn   chan struct{} // holds a token while a caller lists
	newest sharedList[T] // for the holder of the token
}

// sharedList is one list, or the error that ended it. It does not change.
type sharedList[T any] struct {
	number  int64
	content T
	err     error
}

func newSharedLists[T any]() *sharedLists[T] {
	return &sharedLists[T]{turn: make(chan struct{}, 1)}
}

// listAfter returns a list with a higher number. If another caller is listing, it
// waits for the end, and then lists unless another one has done so meanwhile: all
// callers that have waited share one list, or its failure.
func (l *sharedLists[T]) listAfter(ctx context.Context, number int64, read func() (T, error)) sharedList[T] {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return sharedList[T]{number: number, err: context.Cause(ctx)}
	}
	if l.newest.number > number {
		return l.newest
	}
	list := sharedList[T]{number: l.begun.Add(1)}
	list.content, list.err = read()
	if list.err == nil || ctx.Err() == nil { // the end of one caller is no failure of the others
		l.newest = list
	}
	return list
}
