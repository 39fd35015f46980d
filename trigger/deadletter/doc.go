// Package deadletter has durable stores of dead letters, as
// [trigger.Function].DeadLetters wants them: the changes that a function gave up.
//
//   - [Container] keeps them in a Cosmos DB container, by itself or beside the
//     leases. It needs nothing that a function does not have already.
//   - [Directory] keeps them in files of a local disk, for hosts on one machine.
//   - [Blob] keeps them in a container of an Azure Storage account.
//   - [Queue] is a Blob that also puts a message in a queue for each letter, for
//     a repair that a queue triggers.
//
// # What they promise
//
// Put returns nil only once the letter is durable, so a change whose letter is
// stored may be checkpointed past. What fails, fails the Put, and the range
// waits. A letter with the function and ID of one that is there is not stored
// again, by whichever host and at whatever time: the first one stays. A document
// comes back byte for byte, whether or not it is JSON or even UTF-8; in Error and
// Stack what is not UTF-8 becomes U+FFFD.
//
// List holds a bounded number of positions in memory, and one letter. A letter
// that is damaged never passes for a whole one and does not hide the others: List
// goes through all that are whole, and then yields an error for each damaged
// one, a [DamageError]. Holds counts a damaged letter where its key is known:
// see the Holds of each store.
//
// All stores may be used by any number of goroutines and, except for a Directory
// on a disk that others cannot see, by any number of hosts.
//
// # How a letter is written
//
// As a JSON object with the fields of [trigger.DeadLetter]. What came from the
// feed (document, previous, documentKey) is a string there, the text of the
// JSON, because services and tools that pass JSON on write numbers and spaces
// anew. What is no UTF-8 is an object {"base64": "…"} instead.
//
// Letters hold documents of users: whoever may read the store may read them.
package deadletter
