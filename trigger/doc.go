// Package trigger runs functions on the change feed of Azure Cosmos DB
// containers. A [Host] owns leases, reads the feed of each leased range, calls
// the function's [Handler] with batches of changes, and checkpoints in the
// lease documents. Any number of hosts share the work; .NET change feed
// processors and Azure Functions triggers may take over and hand back the same
// leases.
//
// # Guarantees
//
//   - No change is lost. A checkpoint never moves past a change that was neither
//     handled nor put into a durable dead letter store. [Discard] is the one
//     store that is not.
//   - Order per logical partition key. Changes of one key reach the handler in
//     feed order. A redelivery begins at an earlier point and has no gaps.
//   - At least once. What was delivered after the last durable checkpoint is
//     delivered again after a crash or a handover: at most the batch in work
//     and what a checkpoint that was on its way covered.
//   - One owner at a time, as far as clocks and networks allow: no delivery
//     begins when the last successful lease write is older than nine tenths of
//     the expiration. A handler that runs on after its host lost the lease
//     cannot be stopped from outside; sinks that need more compare
//     [Batch.Epoch], which rises with each acquisition of a range.
//
// In latest-version mode the feed itself shows the last version of each item
// and may skip intermediate ones; deletes are not in it.
//
// # The life of a lease
//
// Bootstrap creates one lease document per physical range, then a marker
// document that says so. Functions that start from now get the position of that
// moment, so that nothing written later is missed.
//
// A lease is free when it has no owner, or when the service's clock (the Date
// header) has passed its last write (_ts) by more than the expiration; no
// host's wall clock takes part. To acquire it a host replaces the document
// under its etag, with its own name, a random incarnation and the next epoch. In
// [Host.Run] the balancer decides which; in [Host.Drain] a range is read first
// and acquired only when the answer held changes.
//
// While the lease is held exactly one goroutine, the keeper, writes the
// document, one write at a time: a checkpoint as soon as a batch is handled,
// with all progress made while the last write was under way; a renewal where
// there was none. Each replace carries the newest etag. After a conflict, or an
// answer that was lost, the document is read: with this host's owner,
// incarnation and epoch in it the lease is still held, otherwise it is lost, and
// its worker stops without another write.
//
// When a range splits or merges (410/1002, 410/1007) the worker first delivers
// what it has read, then creates the leases that follow, create-only and at the
// acknowledged position, and only then deletes its own. Each step can be
// interrupted and is repeated by the next owner. After a merge a lease keeps its
// own span of keys and reads the merged range through it.
//
// A Halley host that lacks leases asks their owner for them, by its name in the
// document; the owner hands over after the batch in work. From a .NET host it
// takes one as that does. A host that fails on a range leaves it to others for a
// while, and what the hosts below their share leave lying is anybody's.
//
// At the end the lease is released in one write with the last checkpoint. That
// is a courtesy to the next owner; correctness rests on expiry and etags.
//
// # What happens when a handler fails
//
// The changes come again after a wait that doubles with each failure in a row.
// A batch is halved each time until the change that fails is alone; that uses up
// no attempts. When a change has spent its attempts or its time, or the handler
// says [Skip], it is put into the function's [DeadLetters] store, and counts as
// handled only once it is durable there. Without a store the range waits, and
// [Host.Status] says for what. When one change after another is given up with
// no success between, the range pauses ahead of each further one: then it is
// the sink that is broken. [Replay] delivers dead letters again.
//
// How far a change has come goes into the lease with each write, so that owners
// that last for less than it takes, such as drains of a few minutes, give it up
// between them. Where two owners in a row end without a word, the next delivers a
// page change by change, and notes ahead of each in the lease which it is: a change
// that ends the process is found, and given up, too.
//
// Lanes are ordered queues inside a range, by logical partition key; what is
// saved is the low-water mark over all of them. A handler that does not return
// after its deadline and a grace loses the range.
//
// # Glossary
//
//   - Host: one running process. Owner: its name in a lease.
//   - Range: a span of hashed partition keys. Lease: the document that gives one
//     owner one range of one function.
//   - Continuation: where in a range's feed to read next, the raw etag of a feed
//     answer. Checkpoint: saving it in the lease.
//   - Batch: the changes handed to a handler in one call.
//   - Lane: one of several ordered queues inside a leased range.
//   - Epoch: rises with each acquisition of a lease, and from a lease to those
//     that follow it.
//   - Dead letter: a change that was given up, kept with its error.
//   - Trouble: what a range's next owner must know of changes that were refused.
//   - Drain: work until caught up, then give the leases back.
//
// # Map of the package
//
// handler.go and verdict.go are what users write; options.go and start.go what
// they choose; event.go, status.go and lag.go what they see. host.go is the
// process; function.go brings leases and workers together, by the plan of
// balance.go and the requests of handover.go; drain.go does so for one pass.
// bootstrap.go creates leases and finds holes in their coverage; topology.go
// says which physical range answers for a lease, or which leases follow it.
// A worker.go has a reader.go that reads ahead. delivery.go spreads what was read
// over the lanes of lane.go; bury.go gives up, and trouble.go tells the next owner
// what was tried; progress.go finds the acknowledged prefix, which checkpoint.go
// passes on to the keeper.go. lease.go
// is the document, store.go its conditional writes. outcome.go gives every
// answer of the service its one meaning.
package trigger
