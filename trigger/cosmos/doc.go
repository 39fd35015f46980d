// Package cosmos is a client for the REST API of Azure Cosmos DB for NoSQL,
// made for a change feed runtime: it reads the feed of a container range by
// range, keeps the map of ranges, and reads and writes single documents under
// their etags.
//
// A [Client] speaks to one account, a [Container] names one container of it.
// Neither does I/O when it is made, and both are safe for concurrent use.
//
//	client, err := cosmos.NewClient(endpoint, credential, nil)
//	scores := client.Container("games", "scores")
//	ranges, err := scores.Ranges(ctx)
//	page, err := scores.ReadFeed(ctx, cosmos.FeedRequest{Range: ranges[0]})
//
// # Regions
//
// The account is read once before the first request and again when it is five
// minutes old or a region refuses. Writes go to the write region, reads to the
// first region of [ClientOptions].PreferredRegions that is available.
//
// # Retries
//
// One call repeats its request as [ClientOptions] says, and never past its
// context:
//
//   - 429: after exactly x-ms-retry-after-ms, 30 seconds in total;
//   - 449 and 410/1008, and 410/1002 and 410/1007 where no physical range was
//     asked for: after a backoff;
//   - 410/1000: once, without what was cached, but never for a feed, whose
//     continuation is void then;
//   - 403/3 and 403/1008: after the account was read again, once a second;
//   - 401 with an Entra ID token: once, with a new token;
//   - connection errors and time-outs, truncated bodies, 408 and 5xx: reads
//     only, after a backoff, and from the second time on in the next region, as
//     404/1002;
//   - a connection that could not be made: writes too, and the region comes last
//     for five minutes.
//
// Everything else is the caller's to decide. A write that left and was not
// answered for certain is [ErrOutcomeUnknown]; it is never repeated here,
// because it may have been applied.
//
// # Bodies
//
// The body of a feed page is read whole into a buffer that [Page.Release] gives
// back for reuse, and cut into documents without being decoded.
package cosmos
