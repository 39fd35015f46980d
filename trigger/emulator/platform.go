package emulator

import (
	"strconv"
	"sync/atomic"
	"time"
)

// platform is the ground on which the containers of an account stand: its options, its clock,
// its disk and the counter of its master partition. It has no lock: its plain fields are set
// before the first request.
type platform struct {
	options Options
	seed    uint32       // creation time: tells this account's ids from another's
	regions *regions     // nil if the account has one
	store   *store       // nil if the account is in memory
	master  atomic.Int64 // LSN of the master partition: changes of databases, containers and offers
	skipped atomic.Int64 // time that Advance has skipped
}

func (p *platform) now() time.Time { return time.Now().Add(time.Duration(p.skipped.Load())) }

// masterReplica returns the state of the master partition. Its tokens begin like those of a
// range.
func (p *platform) masterReplica() replica {
	lsn := p.master.Load()
	return replica{session: "0:-1#" + strconv.FormatInt(lsn, 10), lsn: lsn, committed: lsn}
}
