// Package simulation runs several hosts of the real runtime on the embedded
// account for virtual hours inside a testing/synctest bubble, while a seeded
// catalogue of faults happens to them, and has package history judge what came
// of it. There is nothing in it but tests.
//
// # One seed, one run
//
// Goroutines are scheduled by chance even in a bubble, so two rules make a run
// repeat to the last decision.
//
// Every fault is decided by the identity of what it happens to: a hash of the
// seed, the host, the operation and its ordinal. There is no stream of random
// numbers that one more draw could shift.
//
// What changes the world waits in a queue: writes of leases, ends of handler
// calls, late answers, splits, kills. When the bubble is quiescent
// (synctest.Wait) the scheduler sorts what is due by identity, lets the seed
// draw one, carries it out, and waits for quiescence again. Reads that nothing
// happens to are answered at once, in the goroutine that asks: the world holds
// still while they are made, so that their order means nothing.
//
// Some requests have no identity of their own, because whichever goroutine of
// a host comes first makes them for the others: reads of the account, of the
// ranges, and lists of leases. Their fate hangs on the instant instead, so that
// it is one for all of a host at that instant.
//
// # What cannot be simulated in one bubble
//
// A host cannot be frozen: its timers run on the bubble's clock. A pause holds
// its requests and the ends of its handler calls for longer than a lease lasts,
// which is what the others see of a frozen host. A host's clock cannot be
// moved either; what is moved, by up to ten minutes, is the Date header in the
// answers that it gets, which is the only clock of others that the runtime
// looks at. And earlier timers run to completion before later ones, which
// hides races of memory: those are for the race detector and for real processes.
package simulation
