// Package failovers runs hosts of the real runtime on an embedded account with several regions,
// inside a testing/synctest bubble, while regions and single ranges of it fail over. It has only
// tests.
//
// A seed chooses the regions, how fast they replicate, how the account answers where neither its
// documentation nor a recording says it, and the events: planned and unplanned failovers of
// the account, of the range of the leases and of the monitored range, regions that do not answer,
// and hosts that are killed and started. A writer creates documents all the time. At the end the
// account is left in peace, and the judge compares the documents that it has kept with those that were delivered:
//
//   - Each document that it has kept was delivered, unless docs/regions.md names the case.
//   - The first deliveries of the documents of a key are in the order of the feed.
//   - A sink that refuses older changes, by epoch and LSN, has taken them all.
//   - No two acquisitions of a range have one epoch.
//   - An owner delivers nothing once another one has begun to, unless that is a host that has
//     started within an expiration before or after the failover, and could not know of it.
//   - After each quiet time, all documents written before it have been delivered.
package failovers
