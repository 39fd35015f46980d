// Package azure implements stores of dead letters in Azure Storage accounts, with the
// guarantees and the format of package deadletter. A program links Azure's storage
// libraries only if it imports this package.
//
//   - [Blob] stores them in a blob container.
//   - [Queue] is a Blob that also sends a queue message for each dead letter, if
//     a queue-triggered function is to repair them.
package azure
