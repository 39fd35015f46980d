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
// Time is time.Now. Etags, resource ids and activity ids come from counters that
// start at the account's creation time: no two accounts share them, and a run
// in a synctest bubble repeats them.
//
// # Ranges
//
// A container has one physical range, or one for each 10,000 RU/s it was created
// with. [Account.Split] and [Account.Merge] change them under load. Each range
// counts its transactions in LSNs, which are the tokens of its feed. Children of
// a split continue above their parent, and a merged range above all of its
// parents, while items keep the LSN at which they were written: a parent's token,
// together with its key range, stays exact on whatever took its place.
//
// # All versions and deletes
//
// A container with a changeFeedPolicy {"retentionDuration": minutes} logs every
// version of its items, and no other does. What an item's time to live ends is in
// the log at the second of its end, whether anybody looked at the item or not. The
// feed begins now or at an etag. It refuses with 400 what the service refuses: the
// beginning, a start time, containers that keep no versions, containers whose
// ranges were ever merged, and etags that miss what the retention has ended. As
// long as a range is idle its etags stay good, however old. Turning the policy off
// drops the log.
//
// # Durability
//
// Without [Options.Data] everything is in memory. With it, no answer leaves
// before all that it tells is on disk: a write that was acknowledged, read or
// seen in a feed survives a crash.
//
// # Trouble
//
// [Account.Inject] scripts faults for chosen requests; [Options] set a
// throughput budget and latency. A served account offers the same to other
// processes of its machine, without authorization and with JSON both ways:
//
//	GET    /_emulator/state        → State
//	POST   /_emulator/split        {"database": d, "container": c, "range": "0"} → {"children": ["1", "2"]}
//	POST   /_emulator/merge        {"database": d, "container": c, "ranges": ["1", "2"]} → {"child": "3"}
//	GET    /_emulator/faults       → {"faults": [Fault with its "id", …]}
//	POST   /_emulator/faults       Fault → {"id": "1"}
//	DELETE /_emulator/faults[/id]  → {"removed": 1}
package emulator
