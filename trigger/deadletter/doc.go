// Package deadletter implements durable stores of dead letters, for
// [trigger.Function].DeadLetters: the changes that a function has given up.
//
// They keep postponed changes, too, which are due at a time; see [trigger.RetryAfter].
//
//   - [Container] stores them in a Cosmos DB container, which may be the lease
//     container. It needs no further resources or permissions.
//   - [Directory] stores them in files on a local disk, for hosts on one
//     machine.
//   - Package [halley/trigger/deadletter/azure] stores them in an Azure Storage
//     account.
//
// # Guarantees
//
// Put returns nil only when the dead letter is durable, so the function may then
// checkpoint past the change. If Put fails, the range waits. If a dead letter
// with the same Function and ID exists, Put keeps it, whichever host stored it
// and however long ago. Documents are returned byte for byte, even if they are
// not JSON or not UTF-8. In Error and Stack, bytes that are not UTF-8 become
// U+FFFD.
//
// A query keeps a bounded number of positions and the records of one page in memory. A page
// has 100 records without a limit, and is shorter if it reaches a bound of its store. A
// damaged record is never returned as an intact one and does not hide others: a page has a
// [DamageError] for each damaged one that its query may select. Holds counts a damaged dead
// letter if its key is known; each store documents when that is so.
//
// All stores may be used by any number of goroutines and by any number of
// hosts, except that a Directory is shared only by processes on one machine.
//
// The test of these guarantees is triggertest.TestDeadLetters, which a store of your own can
// run, too.
//
// # Format
//
// A dead letter is stored as a JSON object with the fields of
// [trigger.DeadLetter]. Data from the feed (document, previous, documentKey) is
// stored as a string with the text of the JSON, because services and tools that
// forward JSON may reformat numbers and white space. If the data is not UTF-8,
// it is stored as an object {"base64": "…"}.
//
// The field version tells the version of this form. A record of a later version is damaged for
// this one, and kept: its error says to use a newer Halley.
//
// Dead letters contain documents of users: restrict access to the store
// accordingly.
package deadletter
