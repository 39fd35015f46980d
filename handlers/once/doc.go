// Package once is the rule by which a handler's effects happen exactly once although
// changes are delivered at least once. It does no I/O. Packages once/postgres, once/redis
// and once/cosmos keep the rule in a store: there the effect of a change and the position
// of its document are written in one transaction.
//
// # The rule
//
// A store keeps one [Position] for each document: the version whose effect took place
// last, with its epoch, its LSN and its time. [Fresh] selects the changes of a batch that
// come after these positions. Their effects and the new positions are written together,
// on condition that the positions are still those that were read; otherwise nothing is
// written, and the store reads them again.
//
// A change comes after a position by the first of these lines that applies:
//
//  1. It does not if it is the same version: equal versions have equal etags.
//  2. In the same epoch, it does if its LSN is not smaller. LSNs are equal if one
//     transaction has written the document several times.
//  3. In a greater epoch, it does if its LSN is not smaller, or its time is greater.
//  4. In a smaller epoch, it does if neither its LSN nor its time is smaller.
//
// # Why effects happen exactly once
//
// Let v1, v2, … be the versions of one document in the order of their writes.
//
// At most once. The effect of a version commits together with the position that names it.
// Positions only move to later versions, so a version that is delivered again is the one
// of the position (line 1) or an earlier one (lines 2 to 4): it is skipped. If host A and
// host B read the same position and both write, the condition of the second write fails.
// If a host does not learn whether its transaction was committed, its batch is delivered
// again, and the position tells.
//
// At least once. A host checkpoints past a change only when its handler has returned nil
// for it. Then either its effect was committed, or the position was already at this
// version or at a later one. In latest-version mode the later version replaces the earlier
// one, as if the feed had skipped it. In all-versions mode a position at a later version
// proves that the effect of the earlier one took place: one owner delivers the changes of
// a key in order and without gaps, and the next owner starts no later than at the first
// change of the key that is not handled: a redelivery of a key has no gaps. The exception
// is a change that was dead-lettered: if trigger.Function.BlockKeys is not set, later
// versions pass it, and a replay then skips it.
//
// Order. Within one document, effects happen in the order of the versions.
//
// # Former owners
//
// A host that has lost its lease may deliver late. The rule does not refuse its epoch as
// such: a change that comes after the position takes effect, and the new owner skips it
// when its turn comes; any other change is skipped. Neither is an error, so no change of a
// former owner is dead-lettered because it is late. It also means that the rule holds when
// leases are lost and made again, and epochs begin at 1: everything that took effect is
// recognised, and everything else takes effect. A rule that drops smaller epochs would drop
// all changes then, and one that accepts greater epochs would repeat, after each takeover,
// the changes since the last checkpoint.
//
// # What it relies on
//
//   - An etag names one version of a document, and changes with each write; it stays when
//     ranges split and merge. Clients that write with If-Match rely on that.
//   - Within one range, later versions have greater LSNs. The children of a split continue
//     the LSNs of their parent: all SDKs read them from the continuation of the parent.
//   - After a merge, SDKs also continue with the parents' continuations, but the service
//     does not document LSNs. If they were smaller than before, line 3 would still find
//     newer versions by their time, in whole seconds. The embedded account keeps the LSNs
//     of documents, and begins above both parents.
//   - For two versions whose epochs differ, the clock of the service did not step back
//     between them; if it did, the effect of the first may be repeated after a takeover.
//     Nothing is skipped because of it while epochs rise.
//
// A delete in all-versions mode has no etag. It is identified by its LSN and the etag of
// the version before, if the service gives that. If not, two deletes of one document in
// one transaction count as one version.
//
// # Cost
//
// There is no position for a whole range: lanes deliver the keys of a range side by side,
// a failing key waits while the others continue, and ranges split and merge, so that one
// number cannot say which changes took effect. Instead the positions of all documents of a
// batch are read at once. After a crash, or if a checkpoint is lost, the changes that are
// delivered again cost this read per batch and nothing else.
//
// The position of a deleted document stays, or a late older version would bring it back.
// A store may forget positions of documents that were not written for longer than changes
// can be delivered late; see the packages of the stores.
package once
