// Package lease keeps the lease documents of a function: it decides which host
// owns which range of a container, and stores how far each range has come. It
// knows nothing of handlers, batches or feed pages.
//
//	set := lease.NewSet(config)             // one function on one host; no I/O
//	err := set.Prepare(ctx)                 // ensures that the leases exist
//	leases, err := set.Candidates(ctx)      // one pass of the balancer
//	steps, next := set.Plan(leases, working)          // and carries them out
//	held, err := set.Acquire(ctx, ctx, l, nil, false) // this host owns the range
//	held.Start(ctx, turns)                  // writes checkpoints and renewals
//	held.Advance(continuation, time.Now())  // changes are handled
//	held.Stop()
//	err = held.Release(ctx)
//
// # The life of a lease
//
// Bootstrap. The first host takes a lock document, creates one lease for each
// physical range, and then a marker document. If it crashes before the marker,
// the next host continues when the lock has expired. A function that starts from
// now stores the position of that moment in each lease, so that changes written
// later are delivered even if no host acquires the lease for hours.
//
// Acquisition. A lease is free if it has no owner, or if the service's clock (the
// Date header) has passed its last write (_ts) by more than the expiration. The
// wall clocks of hosts do not count. To acquire it, a host replaces the document
// under its etag, with its own name, its incarnation (a random text for each
// process) and the next epoch. If two hosts try, the etag lets one of them win.
//
// Writing. While a lease is held, one task writes the document, one write at
// a time: a checkpoint when a batch is handled, a renewal when there was no
// progress for the renewal interval. Each replace carries the newest etag. After
// a conflict or a lost answer the writer reads the document. If it still has this
// host's owner, incarnation and epoch, the lease is held; otherwise it is lost,
// and the host writes nothing more.
//
// Trust. A host trusts its ownership until nine tenths of the expiration after
// its last successful write left. If a host is suspended for longer, every
// delivery waits in [Held.WaitTrusted] until a new write has confirmed the
// ownership, or returns the loss.
//
// Balance. Each host plans by itself, from the list of leases, so that all hosts
// come to hold equal shares. A host below its share acquires free leases. If none
// is free, it writes a handover request into leases of Halley hosts: the owner
// notices when its next write conflicts, begins no further handler call, and
// releases the lease for the requester when the running ones have returned. Until
// then it answers with its renewals how long they run at most; an owner that renews
// keeps its lease. See handover.go. A host that has started requests one lease, and
// its share when the hosts that start with it have requested theirs, see joining.go.
// From a .NET host, which does not know requests, a host steals one lease per pass.
// If hosts below their share leave a lease free for longer than one acquire
// interval, any host acquires it. A host that stops tells the hosts below their
// share, by a notice that they find as they find a request, see notice.go.
//
// Operators. An operator pauses ranges, moves their positions and frees their leases
// by writes under the etag, while hosts run. See pause.go and operator.go.
//
// Refused writes. If the account throttles lease writes, leases are kept and
// writes repeated after Retry-After, renewals before checkpoints. When trust ends,
// deliveries wait; the next successful write restores it in the same epoch, unless
// another host has acquired the lease meanwhile.
//
// Split and merge. When the physical range of a lease splits, its owner creates
// the children at the stored position, without overwriting, and only then deletes
// the parent. If it crashes in between, the next owner of the parent continues.
// When ranges merge, a lease becomes one by keys: it keeps its own span and reads
// the merged range through it. Children have higher epochs than every lease that
// shared keys with them, so a sink that fences by epoch accepts them.
//
// Deleted leases. If the document of a held lease is deleted, its owner creates it
// again at the acknowledged position, see restore.go. If no host held it, no host
// reads its range: at each audit interval a host compares leases and ranges, and
// fills a coverage gap that two audits in a row have seen.
//
// Release. At the end the owner writes the last position and clears its name, in
// one write. That is a courtesy to the next owner: correctness depends on
// expiration and etags alone.
//
// # Goroutines and locks
//
// One goroutine per function balances or drains: it owns the auditor and calls
// the methods of [Set] that its comment names. The task that [Held.Start] begins owns
// the newest version of a held lease; after [Held.Stop], its caller does, for
// Release or Retire. All other state that goroutines share is guarded by five
// mutexes: those of the store (parsed documents of the last list), of the range
// cache, of the write gate, of the lost leases, and of each writer (position and
// trust). None of them is held during I/O, and no goroutine takes one while it
// holds another, so there is no lock order to keep.
//
// # Files
//
// document.go is the document, parse.go reads it, span.go has its keys; store.go
// makes the conditional requests, and acquire.go takes a lease with them. writer.go writes a held lease, gate.go orders
// writes while the account refuses them, held.go splits a lease, and children.go
// decides which leases follow; index.go finds leases that share keys. balance.go
// plans, by the requests of handover.go, joining.go the first requests of a host, and notice.go the end of one; dispatch.go marks leases whose ranges a queue
// has a message for; duplicate.go chooses between two documents
// for one range; finished.go passes on which changes behind a continuation are finished.
// bootstrap.go creates leases, audit.go finds gaps, restore.go
// creates deleted leases again; set.go joins them.
package lease
