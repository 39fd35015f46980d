// Package failovers runs hosts of the real runtime on an embedded account with several regions,
// inside a testing/synctest bubble, while regions and single ranges of it fail over. It has only
// tests.
//
// A seed chooses the regions, how fast they replicate, how the account answers where neither its
// documentation nor a recording says it, latest versions, all versions or a snapshot, whether hosts
// run, drain or get messages of a queue, and the events: planned and unplanned failovers of the
// account, of the range of the leases and of monitored ranges, regions that do not answer, splits,
// and hosts that are killed and started. A writer creates, replaces and deletes documents all the
// time. At the end the account is left in peace, and the judge compares the changes that its feed
// still shows with those that were delivered:
//
//   - Each change that it shows was delivered, unless docs/regions.md names the case.
//   - The first deliveries of the changes of a key are in the order of the feed.
//   - A sink that refuses older changes, by epoch and LSN, has taken them all.
//   - No two acquisitions of a range have one epoch, but for the case that docs/regions.md names.
//   - An owner delivers nothing once another one has begun to, unless that is a host that has
//     started within an expiration before or after the failover, or has seen the leases come back,
//     and could not know of it.
//   - After each quiet time, all changes written before it have been delivered, and those after a
//     failover in the time that docs/regions.md gives.
package failovers
