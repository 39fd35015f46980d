// Package simulation runs several hosts of the real runtime on the embedded
// account for virtual hours inside a testing/synctest bubble, with faults that a
// seed selects from a catalogue. Package history judges the run. The package has
// only tests.
//
// # One seed, one run
//
// Goroutines are scheduled at random even in a bubble, so two rules make every
// decision of a run repeatable.
//
// First, each fault is decided by the identity of the request or call that it
// affects: a hash of the seed, the host, the operation and its number. There is
// no stream of random numbers, which would shift if one more number were drawn.
//
// Second, all events that change the world wait in a queue: writes of leases, ends
// of handler calls, late answers, splits, kills. When the bubble is quiescent
// (synctest.Wait), the scheduler sorts the due events by identity, selects one by
// the seed, executes it, and waits for quiescence again. If a read has no fault,
// it is answered at once in the goroutine that sends it: the world does not
// change meanwhile, so the order of reads does not matter.
//
// Some requests have no identity of their own, because the first goroutine of a
// host that needs the answer sends them for all: reads of the account and of the
// ranges, and lists of leases. Their faults are decided by the instant instead,
// so that all such requests of a host at one instant have the same fault.
//
// If two goroutines of one host race at one instant for something else, the runtime gives
// them an order: functions that share reads, ranges that wait for memory, lanes that wait
// for the suspect slot, writers that wait for the write gate. Events of a host that was
// frozen happen at instants of their own.
//
// # Limits of one bubble
//
// A host cannot be frozen, because its timers run on the bubble's clock. When it
// pauses, its requests and the ends of its handler calls are held for longer than
// the lease expiration; to the other hosts this looks the same. A host's clock
// cannot be moved either. When a clock steps, the Date header in the host's
// answers is moved by up to ten minutes; it is the only remote clock that the
// runtime reads. Earlier timers run to completion before later ones, which hides
// data races: these are found by the race detector and by real processes.
package simulation
