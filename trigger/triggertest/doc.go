// Package triggertest tests handlers and dead letter stores without a service and without
// waiting.
//
//   - [Deliver] calls a handler once and returns its [trigger.Verdict].
//   - [Converges] finds handlers that are wrong under redelivery, crashes, late
//     deliveries and failures: it compares the end of a plain run with the end of runs
//     in trouble.
//   - [World] is an account with hosts, for tests that act out a story.
//   - [TestDeadLetters] tests that a dead letter store of your own keeps its contract.
//
// The first three use the runtime of package trigger on an embedded account, in process.
// Only tests import this package.
//
// # Bytes
//
// The bytes of a change are read-only. Each call gets a copy, and if the handler has
// modified it, the test fails. If [trigger.Function.ReuseBuffers] is set, the bytes are
// lent: they are overwritten with # when the handler has returned, so that a handler
// that keeps them without [trigger.Change.Clone] keeps nonsense. The plain run of
// Converges does not overwrite them, so that its end differs.
//
// # Trouble
//
// Between the drains and in the handler calls of a run in trouble, a seed selects
// from what the contract of [trigger.Handler] allows. Seeds are not left to chance: in a
// few consecutive ones each kind of trouble is met, and those that depend on it are met with
// a document that is written again afterwards, and with one that is deleted.
//
//   - A document is written several times before the function sees it: in latest-version
//     mode versions are skipped.
//   - A host is killed when its handler has got a part of a batch, or all of it, before
//     any position of its drain was saved, or when it has caught up. The next host has a
//     new handler on the same sink. It gets the batch again, or everything since the last
//     drain, in a higher epoch.
//   - A host pauses in a call, its leases expire, and the next host delivers newer changes.
//     Then the first one continues its call, in its older epoch.
//   - A call fails when the handler has got a part of the batch. The batch is redelivered and
//     is halved, while changes of other keys pass it.
//   - With BlockKeys, a change fails until it is dead-lettered, and is replayed at the end.
//   - A call fails at each point of its own effect, one after the other: its context ends
//     when it is used for the first time, in the next call when it is used for the second
//     time, and so on. A store call with that context fails, and a connection that it uses is
//     cut, between any two steps of the handler. A request through [World.Client] fails
//     before it has an effect, or its answer is lost. Store calls with another context, such
//     as context.Background(), hide these points, unless the sink is a server that the handler
//     reaches through [World.Wire]: then its connections are cut instead, in some of the calls.
//   - The context of a call has ended when the call begins.
//   - Ranges split and merge. There are up to three at the beginning, whose changes are
//     delivered at the same time.
//   - A process is stopped in good order, and another one starts.
//
// In a call that gets a part of its batch, that part is the batch of the handler: it
// must not rely on the size of a batch.
//
// # Time
//
// Nothing waits for time except for retries, which take milliseconds. The leases of a
// killed host expire at once, as the clock of the account is moved: see [World.Advance].
// So everything runs inside and outside of a testing/synctest bubble. Handlers with
// sinks behind real connections, such as miniredis, cannot live in a bubble; with others,
// a bubble finds goroutines that a handler leaves behind, and can show a handler's own
// waits.
//
// A seed determines the history and the trouble. It does not determine which of several
// calls that run at the same time comes first.
package triggertest
