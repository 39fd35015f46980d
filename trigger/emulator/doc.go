// Package emulator is an Azure Cosmos DB for NoSQL account in one Go process.
//
// It speaks the REST protocol, so that clients which were written for the
// service work with it unchanged: databases, containers, items, transactional
// batches, queries, throughput, partition key ranges that split and merge, and
// the change feed in both modes. An [Account] serves real connections
// ([Account.Serve], or as an [http.Handler]), and is also a transport for
// clients built on azcore, in process ([Account.Do]). In process it starts no
// goroutine and waits only on timers, so that it can live in a testing/synctest
// bubble.
//
// # Time and identity
//
// Time is time.Now, and [Account.Advance] skips some. Etags, resource ids and activity ids come from counters that
// start at the account's creation time: no two accounts share them, and a run
// in a synctest bubble repeats them.
//
// # Consistency
//
// The account states Session consistency, as most accounts do, and refuses requests for a
// stronger one. Each region has one replica, and every read sees all writes before it there. A read gets
// 404/1002 if it carries a token that is ahead of its range, and 400 if the token is not
// valid.
//
// Answers of a range carry its session token and LSNs, errors included, and those to requests
// for databases, containers and offers carry the ones of a master partition, which counts
// their changes. What the service's gateway refuses, such as a syntax error of a query, has
// neither these nor a charge. Package hosted compares answers with recorded ones.
//
// # Ranges
//
// A container has one physical range, or one for each 10,000 RU/s if it was
// created with a throughput. [Account.Split] and [Account.Merge] change them under
// load. Each range counts its transactions in LSNs, which are the tokens of its
// feed. The token of a page that reaches the end is the newest LSN, whether or not the
// feed shows an item with it; for other pages see [Manners]. If the throughput is that of a
// database, its containers lie in one partition and share one sequence of LSNs, in which the
// database and each container take one, too; a container that splits continues with sequences
// of its own. An item that expires takes an LSN only in a log of all versions. The operations
// of a bulk request are transactions of their own that share an LSN, or by dice do not, see
// [Options].BulkSeed. Children of a split continue above their
// parent, and a merged range above all of its parents, while items keep the LSN at
// which they were written: when a range is replaced, its tokens stay exact for its keys
// on the ranges that follow.
//
// # All versions and deletes
//
// A container logs every version of its items if it has a changeFeedPolicy
// {"retentionDuration": minutes}. When an item expires, the log has the deletion
// at the second of the expiry, even if no request has touched the item since. Versions
// have the image before them if a previousImageRetentionPolicy asks for it, or
// [Options].PreviousImages. The feed begins now or at an etag. Like the service it answers 400 if a client asks
// for the beginning or a start time, if the container keeps no versions, if its
// ranges were ever merged, or if versions after the etag are past the retention.
// If a range is idle, its etags stay valid, however old. The log is dropped when
// the policy is turned off.
//
// # Regions
//
// An account with several [Options].Regions has an endpoint for each region, and a copy of each
// container there. One region takes the writes, and the others answer them 403/3, or all do
// with [Options].MultipleWrites: then the last writer wins by _ts. Writes arrive in other
// regions after [Options].ReplicationLag, or as [Account.SetReplication] says, when a request
// looks: a read that is behind its session gets 404/1002. Definitions of databases and
// containers are everywhere at once, and a split or merge waits for all writes before it.
// [Account.FailOver] moves the writes of the account, [Account.FailOverRange] those of one
// range while the account's document stays as it is; if a failover is unplanned, writes that
// the new region does not have are lost, in all regions. [Fault].Region makes a region fail.
// Session tokens name all regions but the writing one, without an LSN of theirs (recorded
// answer of a hosted account, October 2026); if all write, all with their own LSNs. Containers
// that share a throughput have LSNs of their own.
//
// # Durability
//
// Without [Options.Data] everything is in memory, as is an account with several regions. With it, the account answers only
// when the state behind the answer is on disk: a write that was acknowledged, read
// or seen in a feed survives a crash. On a full disk writes get 503, reads continue,
// nothing expires, and writes resume when there is room; [Options.Log] is told of both.
// [CheckData] checks a directory.
//
// # Limits
//
// No request takes much memory or time, so that a mistake or a web page cannot end
// the process. The service's documented limits hold for documents (2 MB, 128 levels),
// ids, partition keys, batches, patches and container definitions. Values, rows and
// work of a query are bounded, see package sql, and end with the request's context.
//
// The key is public, so real connections are refused if they may come from a web
// page: with an Origin header, or with a Host that is neither localhost, nor an IP
// address, nor one of [Options.Hosts].
//
// # Roles
//
// The key may do everything, and so may a token of Entra ID until [Account.AssignRoles]
// says what the tokens of a principal may do, in the service's data actions. A request
// without its action gets the service's 403/5301, and one that only the key may send,
// such as the creation of a container, 403/5300.
//
// # Faults
//
// [Account.Inject] scripts faults for chosen requests; [Options] set a throughput
// budget and latency. If the account is served, other processes of its machine can
// do the same without authorization and with JSON both ways:
//
//	GET    /_emulator/state        → State
//	POST   /_emulator/split        {"database": d, "container": c, "range": "0"} → {"children": ["1", "2"]}
//	POST   /_emulator/merge        {"database": d, "container": c, "ranges": ["1", "2"]} → {"child": "3"}
//	POST   /_emulator/failover     {"region": r, "kind": "planned"}, with database, container and range for one range → {"regions": […]}
//	POST   /_emulator/replication  {"region": r, "lag": "5s", "paused": false} → {"regions": […]}
//	GET    /_emulator/faults       → {"faults": [Fault with its "id", …]}
//	POST   /_emulator/faults       Fault → {"id": "1"}
//	DELETE /_emulator/faults[/id]  → {"removed": 1}
package emulator
