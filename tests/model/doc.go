// Package model explores the lease protocol of package trigger: every order in
// which the steps of two or three hosts, the service and the faults between
// them can happen in a small world, up to the last reachable state. It proves
// nothing about the code, which may differ from the model, nor about larger
// worlds; but protocols break in small worlds. If a promise breaks, the search
// prints the shortest sequence of steps to that state.
//
//	go test ./tests/model -v            # small worlds; with HALLEY_TEST_LONG=1 millions of states
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
//     handover request. An etag is modelled as one bit: whether the etag that a
//     host has is still the document's. When a write lands, it clears the bit of
//     all other hosts.
//   - Hosts with their view: the lease, its etag and epoch, the positions that
//     they have read, acknowledged and stored, and whether they trust the lease.
//     Two may be twins with one owner name. In the model a host works on one
//     lease at a time; workers of one process share only their name, so a
//     process with two leases is two hosts.
//   - Requests. The service applies or rejects a request and answers; or the
//     answer is lost; or the sender crashes or stops waiting and reads instead,
//     and the request lands at any later time or never. Reads are one step.
//   - Time, as two events. A lease expires at any moment if it was not written
//     since. When it does, hosts that trust it because of an earlier write stop
//     to trust it: trust begins when a write is sent and lasts nine tenths of the
//     expiration. The bootstrap lock outlives its TTL at any moment.
//   - Crashes between any two steps, with a restart under the old name and a new
//     incarnation. Graceful stops, drains, handovers, thefts by balancing, and
//     lease documents that an operator deletes.
//
// The world limits the number of faults, so that the search ends; all other
// steps may happen any number of times. If two states differ only by an exchange
// of equal hosts, one of them is explored.
//
// # How it corresponds to the code
//
// Names of package trigger/internal/lease, except for worker of package trigger.
//
//	balance, list, acquire  Set.Plan, store.acquire
//	requests                store.requestHandover
//	begin                   leaseWriter, worker of package trigger
//	writes, writeLands      leaseWriter.Run, writeOnce, adoptLease
//	writeReads              leaseWriter.afterConflict, rereadLease
//	h.trust                 leaseWriter.WaitTrusted, ConfirmOwnership
//	reads, delivers         worker.run; a page is one change
//	split, uncovered        Held.Split, Held.createChildren, missingChildren
//	retire                  Held.Retire
//	release                 leaseWriter.Release; an owner that is asked for its lease releases
//	                        it at any later moment, and halley.busy only says when at the latest
//	bootstrap, locks, fills leaseCreator.bootstrapLeases, takeLock, fillGaps
//	gaps, audit             coverageGaps, auditor.auditOnce
//	locate                  locate, newChild
//
// # Promises
//
// Numbered as elsewhere in the tests. Each is checked in every state, or at the
// step that could break it.
//
//   - I1, I2: no checkpoint lands, and no lease is created, past a change that is
//     not handled, unless another lease covers the change.
//   - I3: a write never moves the continuation or the epoch of a lease back.
//   - I4: no change is delivered if an earlier one of its cell was never
//     handled. A redelivery may begin earlier, never later.
//   - I5: no two hosts hold one epoch of a lease. No checkpoint, release or
//     delete lands if another owner or epoch sent it. No delivery begins after
//     another host has acquired the expired lease. Two things are not promised:
//     that a running handler has ended by then; and anything about deliveries
//     between a theft from a live owner, or the deletion of its lease document,
//     and its next write.
//   - I6: when the marker exists, every cell has a lease. No lease delivers
//     changes that one of its descendants covers.
//   - I7: the owner of a lease delivers no change that a checkpoint has covered,
//     so only changes since the last checkpoint are delivered twice.
//   - I8: from every state the work can be done without further faults, and
//     without the expiration of a lease if its owner is well. This is
//     reachability: it excludes dead ends, not endless bad luck.
//
// # Not modelled
//
// Durations, and so the margins between them; the simulation has these. The
// arithmetic of the plan: any free lease may be acquired, which includes all
// choices of the plan. Lanes, bisection and dead letters: a change is handled or
// not. Listings with pages from several moments: a list is one step. Tombstones,
// quarantined documents, several documents with one token, leases with an
// unknown span. Hosts of other kinds, except for their thefts; a Halley host takes
// no lease from an owner that renews. Refused writes, except as lost requests. The
// restoration of a deleted lease by its owner (Set.RestoreLost): it creates
// without overwriting, as an audit does, and the model has the audit. The creation
// of a child that lands when its range has already split and merged again: in that
// one world, creations are prompt.
//
// # Key marks
//
// A second model, [MarkWorld], has one range, whose lease tells finished changes behind
// its position A from unfinished ones. It holds a position Q, and for each logical key
// with unfinished changes up to Q the LSN of the first of these: its mark. Every admitted
// change up to Q is finished, or its key has a mark that is not above its LSN. The next
// owner reads from A and passes the finished changes over, so that a key that fails for
// long holds up A, and no other key.
//
// The model has writes, deletes, and bulk writes of two keys with one LSN; pages of any
// length, of the newest or of all versions, from replicas that may lag; an owner, and
// calls and a pending write of former owners, which land late or never; seeks, also to the
// same position; .NET owners, which move A and keep unknown properties; splits that give a
// copied document a larger LSN; and a sink that buffers until it requests a checkpoint. If
// a call fails, this is one that does not return yet. The moments of writes, the limits
// of reading, retries and dead letters are left out.
//
//   - I1, I2: no checkpoint passes a change that is not handled, and no owner passes one
//     over because of an inherited value.
//   - I4: a delivery of a key may begin earlier than the last one, and leaves out no
//     version that the feed still has. When all is done, the newest version of each key
//     was delivered last.
//   - I8: from every state all changes can be handled.
//
// If other software moves A away and back between two acquisitions by Halley's hosts,
// nothing in the lease tells. The model lets it move A once between two of them.
//
// # Mistakes
//
// [Rules] and [MarkRules] make the protocol wrong at single points, as a programmer might
// have written it. Each mistake is caught, and its trace in testdata is the reason
// for that part of the code.
package model
