// Package cosmos is a client for the REST API of Azure Cosmos DB for NoSQL,
// made for a change feed runtime. It reads the change feed of a container range
// by range, tracks the container's ranges, reads and writes single documents
// under their etags, and commits transactions of one logical partition.
//
// A [Client] represents one account, a [Container] one of its containers.
// Creating them does no I/O, and both are safe for concurrent use.
//
//	client, err := cosmos.NewClient(endpoint, credential, nil)
//	scores := client.Container("games", "scores")
//	ranges, err := scores.Ranges(ctx)
//	page, err := scores.ReadFeed(ctx, cosmos.FeedRequest{Range: ranges[0]})
//
// # Regions
//
// The client reads the account before its first request, and again when that
// information is five minutes old or when a region rejects a request. Writes go
// to the write region, reads to the first available region of
// [ClientOptions].PreferredRegions. If one region writes, a write of a document
// that is refused (403/3), or that cannot be sent, is sent to the next region at
// once, and later requests begin there: the range of the document may have failed
// over while the account's document stays as it is. So do all requests for
// documents of a container that [Container.PinToWriteRegion] is called for.
//
// # Retries
//
// A call retries its request within the limits of [ClientOptions] and of its
// context:
//
//   - 429: after the wait that the service requests, 30 seconds in total;
//   - 449 and 410/1008: after a backoff; also 410/1002 and 410/1007, if the
//     request did not name a physical range;
//   - 410/1000: once, after dropping the cached properties and ranges; a feed
//     read is not retried, because its continuation is no longer valid;
//   - 403/3 and 403/1008: once a second, after reading the account again, and of
//     documents in the other regions before;
//   - 401 with an Entra ID token: once, with a new token;
//   - connection errors, timeouts, truncated bodies, 408 and 5xx: reads only,
//     after a backoff, and from the second failure on in the next region;
//     404/1002 likewise, also for writes;
//   - failed connects: writes too; the region then comes last for five minutes.
//
// All other answers are returned to the caller. If a write was sent and no
// certain answer arrived, the error is [ErrOutcomeUnknown]; the client never
// repeats such a write, because the service may have applied it.
//
// # Bodies
//
// The client reads the body of a feed page into one buffer and finds the bounds
// of its documents without decoding them. [Page.Release] returns the buffer for
// reuse.
package cosmos
