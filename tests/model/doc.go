// Package model explores the lease protocol of package trigger: every order in
// which the steps of two or three hosts, the service and the faults between
// them can happen, within a small world, up to the last reachable state. It
// proves nothing about the code, which may differ from the model, nor about
// worlds that are larger; but protocols break in small worlds, and what it
// finds it tells as the shortest way there.
//
//	go test ./tests/model -v            # millions of states, seconds
//	go test ./tests/model -long -v      # tens of millions, some GB
//	go test ./tests/model -update       # rewrite the traces in testdata
//
// # What is modelled
//
// A [World] has a feed of a few changes, each in a cell (the smallest part of
// the key space), and a list of range sets: splits and merges that may happen
// at any moment, in that order. Changes are written before and during.
//
//   - Lease documents with etag, owner, incarnation, epoch, continuation and a
//     request for a handover. Of an etag only one thing matters: whether the one
//     in somebody's hands is still the document's. It is one bit, which every
//     write that lands clears for all others.
//   - Hosts with what they believe: the lease, its etag and epoch, how far they
//     have read, acknowledged and stored, and whether they trust the lease. Two
//     may be twins with one owner name. In the model a host works on one lease
//     at a time; workers of one process share nothing but their name, so a
//     process with two leases is two hosts.
//   - Requests: sent; landed, or refused, with the answer; landed without it;
//     or given up by their sender, who crashes or reads instead, and landing at
//     any later time or never. Reads are one step.
//   - Time, as two events. A lease expires at any moment when it was not written
//     since; whoever trusts it by a write that landed until then trusts it no
//     more, because trust counts from when that write left and ends earlier
//     (nine tenths of the expiration). The bootstrap lock outlives its TTL at
//     any moment.
//   - Crashes between any two steps, with a restart under the old name and a new
//     incarnation. Graceful stops, drains, handovers, thefts by balancing, and
//     lease documents that somebody deletes.
//
// Faults are counted by the world, so that there is an end; everything else may
// happen as often as it likes. Hosts that are alike may be exchanged, so of such
// states one is explored.
//
// # How it corresponds to the code
//
//	balance, list, acquire  function.balance, plan, leaseStore.acquire
//	asks                    leaseStore.ask
//	begin                   newKeeper, worker.startPosition
//	keep, keeperLands       keeper.run, keeper.writeOnce, keeper.adopt
//	keeperReads             keeper.writeOnce after an unsure answer, lease.heldBy
//	h.trust                 keeper.trusted, keeper.await
//	reads, delivers         worker.read, worker.deliver; a page is one change
//	split, uncovered        worker.split, createChildren, function.otherSpans
//	retire                  worker.retire
//	release                 keeper.release
//	bootstrap, locks, fills function.bootstrap, lock, createMissing, unlock
//	holes, audit            holes, function.audit
//	locate                  locate, lease.child
//
// # Promises
//
// Numbered as elsewhere in the tests. Each is checked in every state, or at the
// step that could break it.
//
//   - I1, I2: no checkpoint lands, and no lease is created, past a change that is
//     not handled, unless another lease covers the change.
//   - I3: a write never moves the continuation or the epoch of a lease back.
//   - I4: no change is delivered while an earlier one of its cell was never
//     handled. A redelivery may begin earlier, never later.
//   - I5: no two hosts hold one epoch of a lease. No checkpoint, release or
//     delete lands that another owner or epoch sent. No delivery begins after
//     another host has acquired the expired lease. Not promised: that a handler
//     which runs has ended by then; nor anything about deliveries between a
//     theft from a live owner, or the deletion of its document, and its next
//     write.
//   - I6: once the marker is there, every cell has a lease. No lease delivers
//     what a lease that follows it covers.
//   - I7: the owner of a lease delivers nothing that a checkpoint has covered; so
//     duplicates are what was delivered since the last one.
//   - I8: from every state the work can be done without further faults, and
//     without the expiration of a lease whose owner is well. This is
//     reachability: it excludes dead ends, not bad luck without end.
//
// # What is not modelled
//
// Durations, and so the margins between them; that is for the simulation. The
// arithmetic of the plan: any free lease may be acquired, which includes what
// the plan does. Lanes, bisection and dead letters: a change is handled or not.
// Listings that were put together from several moments: a list is one step.
// Tombstones, quarantined documents, several documents with one token, leases
// whose span is unknown, hosts of other kinds beyond their thefts. The creation
// of a child that lands after its range has split and merged again: in that one
// world, creations are prompt.
//
// # Mistakes
//
// [Rules] turns single points of the protocol into what one might have written
// instead. Each is caught, and its trace is in testdata: the reason why the code
// is as it is.
package model
