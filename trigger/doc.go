// Package trigger runs functions on the change feed of Azure Cosmos DB
// containers. A [Host] owns leases, reads the feed of each leased range, calls
// the function's [Handler] with batches of changes, and checkpoints in the lease
// documents. Any number of hosts share the work; .NET change feed processors and
// Azure Functions triggers may take over and hand back the same leases.
//
// # Guarantees
//
//   - No change is lost. A checkpoint never moves past a change that was neither
//     handled nor put into a durable dead letter store, unless a [Filter] leaves it
//     out. [DropDeadLetters] is the one store that is not durable.
//   - Order per logical partition key. Changes of one key reach the handler in
//     feed order. A redelivery of a key starts at an earlier change and has no gaps.
//   - At least once. After a crash, a handover or a stop, changes after the last
//     durable checkpoint are delivered again. After a handover or a stop these are at
//     most [BatchPolicy.MaxAhead] and a page. After a crash the changes that were handled
//     within the last [Checkpoint].Interval, by default 200 ms, come in addition, and with
//     manual checkpoints everything from the first change on that no request covers.
//   - One owner at a time, as far as clocks and networks allow. No delivery begins
//     if the last successful lease write is older than nine tenths of the
//     expiration. A running handler cannot be stopped from outside after its host
//     has lost the lease; a sink that needs more compares [Batch.Epoch], which
//     rises with each acquisition of a range.
//
// In latest-version mode the feed shows the last version of each item. It may skip
// intermediate versions, and it does not show deletes.
//
// Under Session consistency, a host never reads a range behind its own earlier reads,
// or behind writes of handlers that use the same [cosmos.Container]: feed reads carry
// the session token of the newest answer.
//
// # The life of a lease
//
// Bootstrap creates one lease document per physical range, then a marker document.
// If a function starts from now, its leases get the position of that moment, so
// that no later change is missed.
//
// A lease is free if it has no owner, or if the service's clock (the Date header)
// has passed its last write (_ts) by more than the expiration; no host's wall clock
// takes part. A host acquires it by replacing the document under its etag, with its
// own name, a random incarnation and the next epoch. In [Host.Run] the balancer
// decides which leases to acquire. In [Host.Drain] a range is read first, and
// acquired only if the answer holds changes. A queue can spread the drains of ranges
// over many processes: [Host.Dispatch] marks the leases whose ranges have changes, and
// [Host.DrainRange] acquires one, which removes the mark.
//
// While the lease is held, exactly one task, the lease writer, writes the
// document, one write at a time: a checkpoint when batches are handled, by default at
// most one in 200 ms, with all progress made until then, and a renewal if there is no
// progress.
// Each replace carries the newest etag. After a conflict, or if an answer is lost,
// the writer reads the document. If it still holds this host's owner, incarnation
// and epoch, the lease is still held; otherwise it is lost, and the worker stops
// without another write.
//
// The saved position may stand between two changes of a page with different LSNs. If the range
// was merged, or if the LSNs of a page are missing or do not agree with its token, only the end
// of a page is a position. An owner that handles changes of such a page and moves no position
// lets the next one begin with a page of one transaction (halley.pageItems), and each further
// page has twice as many changes. So an owner that can finish one transaction makes progress.
//
// When a range splits or merges (410/1002, 410/1007), the worker first delivers the
// pages that it has read. Then it creates the leases that follow, create-only and
// at the acknowledged position, and only then deletes its own. Each step can be
// interrupted, and the next owner repeats it. After a merge a lease keeps its own
// span of keys and reads the merged range through it.
//
// A Halley host that lacks leases requests them from their owner, by its name in the
// document. The owner starts no further call, says in its renewals until when it is
// busy, and releases the lease when its calls have returned. From a .NET host it takes
// one lease, as .NET does. A host that fails on a range leaves it to others for a
// cooldown. A lease that under-loaded hosts do not take within one acquire interval
// may be taken by any host.
//
// At the end the lease is released in one write with the last checkpoint. A release
// is a courtesy to the next owner; correctness rests on expiry and etags.
//
// An operator may change leases while hosts run, see package halley/trigger/leases: pause
// and resume ranges, move positions, free leases. A paused range keeps its lease and no
// host acquires it. Its owner learns of a pause when its next write conflicts, finishes
// running calls, and releases the lease with its position. A position is moved only
// while no host holds the lease.
//
// # Several functions on one container
//
// Functions of a host share their reads if they have the same [cosmos.Container], mode
// and PageItems: those at one position of one range cost one request, and their pages grow
// together. Each has its own leases, positions, filter, retries and checkpoints. A page that one of
// them has read is kept for the others, for up to a minute and in bytes of
// Options.ReadAhead that no range has reserved; a function that lags further behind
// reads on its own. An answer without changes serves another function only if that one
// finds no change later than its FeedPollDelay allows, and never hides a change that
// another read or a handler's write has shown to this process. In a drain, all functions
// share such answers from the beginning of the drain.
//
// The functions get the same bytes: a handler that modifies those of its changes, which
// are read-only, modifies them for all. Package triggertest finds such handlers.
//
// # When a handler fails
//
// The changes wait aside with the later changes of their keys, twice as long with each
// failure, while the other keys of the lane continue. A batch is halved, first by keys,
// until the failing change is alone; halving uses
// up no attempts. When a change has spent its attempts or its age, or the handler
// returns [Skip], it is put into the function's [DeadLetters] store, and counts as
// handled only once it is durable there. Without a store the range waits, and
// [Host.Status] says for which change. If one change after another is given up
// without a success between them, the sink is broken: the range then pauses before
// each further one. [Replay] delivers dead letters again.
//
// A handler that returns [RetryAfter] postpones changes: they are kept in the store with
// the time at which they are due, and the range continues. Later changes of their keys are
// stored behind them. When a key is due, the owner of its range loads its changes from
// the store, delivers them in order like changes that wait aside, and deletes each one
// that is handled. The next owner lists the postponed changes of the range's keys, by the
// hash of each key, and delivers those before its position when they are due; the others
// wait until its feed has passed them. The lease tells when the next one is due
// (halley.postponed), so that drains know, and what a former owner of a merged range had
// read behind its position (halley.readAhead).
//
// The saved position stays before the first unfinished change. Which changes behind it are
// finished is saved in the lease (halley.finished): up to an LSN, all but those of at most
// 64 keys from their first unfinished one on. The next owner passes over them, unless the
// position, mode or filter is another one, a .NET host has owned the lease, or ranges were
// merged: then it delivers everything from the position on. A drain acquires the range
// for changes after that LSN and for a retry that is due. A seek removes the property.
//
// Attempts are stored in the lease with each write, so the limit also holds across
// short drains and replaced hosts. After an owner has vanished without releasing the
// lease (probably a crash), the next one names the changes of each call in the lease
// before the call. If it vanishes during a call, exactly these changes are suspects:
// they wait aside until they can be delivered alone, and a change that ends the
// process often enough is given up.
//
// Lanes are ordered queues inside a range, by logical partition key; the saved
// position is the low-water mark over all of them. If a handler does not return
// after its deadline and a grace, its host gives up the range.
//
// Package triggertest tests handlers against all of this, without a service.
//
// # Glossary
//
//   - Host: one running process. Owner: its name in a lease.
//   - Range: a span of hashed partition keys. Lease: the document that gives one
//     owner one range of one function.
//   - Continuation: where in a range's feed to read next, the raw etag of a feed
//     answer. Checkpoint: saving it in the lease.
//   - Batch: the changes of one handler call.
//   - Lane: one of several ordered queues inside a leased range.
//   - Epoch: counts the acquisitions of a lease; it carries over to the leases that
//     follow it.
//   - Postponed change: its handler has said when it may be delivered again. Until then
//     it is in the dead letter store, but it is not a dead letter.
//   - Dead letter: a change that was given up, stored with its error.
//   - Retry state: the failure history of a group of changes, stored in the lease for
//     the next owner.
//   - Drain: work until caught up, then give the leases back.
//
// # Map of the package
//
//	handler.go change.go verdict.go   the code that users write
//	options.go defaults.go            settings and their defaults
//	validate.go start.go              rules of settings; where a function starts
//	filter.go                         the changes that a function gets
//	event.go status.go lag.go         signals for operators
//	deadletter.go deadletterquery.go  the store interface, its records and queries
//	errors.go                         errors that callers branch on
//	leases, stall                     an operator's changes of leases; reasons why a range stands still
//	host.go                           one process: its functions run at once
//	runner.go drain.go                one function: continuous mode, one drain
//	dispatch.go                       ranges with work, and drains of single ranges, for a queue
//	sharedreads.go                    which functions share their reads
//	worker.go                         one leased range: joins lease, feed and delivery
//	reading.go handling.go            the worker's side of the feed and of handler calls
//	snapshot.go snapshotend.go        documents that exist before all versions; what they do not show
//	rangegone.go                      a physical range that has split or merged (410)
//	balancing.go restarting.go        passes that take and give leases; an ended function begins again
//	deadletterwrite.go invoke.go        dead letters of a range; a call with its deadline
//	postponing.go                     changes that wait in the store until they are due
//	deadletterlists.go                lists of dead letters, which ranges share
//	limiter.go                        what a function may spend in a second
//	stats.go retention.go             counters of a range; changes about to be lost
//	internal/lease                    lease documents and their ownership
//	internal/delivery                 lanes, the state of a key (Admit), retrypolicy.go (Decide), store.go, progress
//	internal/feed                     pages, positions, shared reads, the byte budget
//	internal/filter                   event filter patterns on the bytes of documents
//	internal/schedule                 steps of tasks that mostly wait: polls, renewals
//	internal/backoff                  waits between attempts
package trigger
