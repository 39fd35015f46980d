package model

// Bounds of a state. They keep it a small comparable value.
const (
	maxHosts   = 3
	maxLeases  = 7
	maxCells   = 3
	maxDelayed = 2
)

// none is the continuation of a lease without one.
const none = 0xFF

// state is everything that can differ between two moments. It has no etags: an
// etag is never repeated, so it only matters whether a host's etag is still the
// document's. That bit is called fresh. It has no incarnations either: when a
// process dies, its leases belong to no incarnation.
type state struct {
	hosts   [maxHosts]host
	leases  [maxLeases]lease
	delayed [maxDelayed]delayed // sorted; requests whose sender has stopped waiting

	written  uint8           // changes in the feed: 1 … written
	handled  uint8           // set of changes whose handler returned nil
	scope    uint8           // changes up to here are not promised: written before "now"
	topology uint8           // how often ranges have split or merged
	durable  [maxCells]uint8 // the highest checkpoint that covered a cell
	marker   uint8           // bootstrap has created the leases
	lock     uint8           // bootstrap lock: 0 none, 1 held, 2 older than its TTL

	// How often each may still happen.
	crashes, losses, delays, steals, stops, requests, deletions uint8

	broken promise
}

// lease is a lease document.
type lease struct {
	there     uint8
	owner     uint8 // name + 1; 0 is free
	by        uint8 // incarnation: host + 1; 0 if it is dead or there is none
	epoch     uint8
	at        uint8 // continuation
	expired   uint8 // the expiration has passed since the last write
	requested uint8 // another host requests a handover
}

// host is a process with one lease: its worker and its lease writer.
type host struct {
	doing     uint8 // see the constants
	lease     uint8
	fresh     uint8 // the writer's etag is the document's
	epoch     uint8 // the epoch that the host acquired
	read      uint8 // continuation of the newest page
	acked     uint8 // the acknowledged position
	stored    uint8 // the stored position
	trust     uint8 // 1 by a write not later than the document's last, 2 by a later one
	calls     uint8 // the handler is running
	stolen    uint8 // another host took the lease while this one was alive
	ending    uint8 // the reason to read no more
	confirmed uint8 // a write that was sent when the range was gone has landed
	childless uint8 // the lease, of schema v1, was found to have no children

	write  sent  // the pending write of the lease
	child  uint8 // the lease that is being created, + 1; 0 none
	at     uint8 // its continuation
	todo   uint8 // leases that are still to be created
	ranges uint8 // the topology that was read for that
	gaps   uint8 // leases that the last audit missed
	locked uint8 // the bootstrap lock that this host took is younger than its TTL
}

// sent is a pending request; its host waits for the answer.
type sent struct {
	verb     uint8
	fresh    uint8 // its etag is the document's; meaningless with force
	force    uint8 // it carries none
	confirms uint8 // it was sent when the range was gone
	at       uint8 // continuation in it
}

// delayed is a pending request whose sender has stopped waiting for it.
type delayed struct {
	verb, lease, force, owner, by, epoch, at uint8
}

// Activities of a host.
const (
	idle uint8 = iota
	listed
	acquiring
	acquireUnsure
	anchoring // startPosition: the concrete "now" is to be in the lease first
	working
	looking  // split: refresh of the ranges
	listing  // split: reads which children are already covered
	creating // split: children
	retiring // split: delete of the parent
	releasing
	releaseUnsure
	lost
	requesting
	booting // prepare: reads the marker
	locking
	seeking // createMissing: refresh of the ranges
	finding // createMissing: list of the leases
	filling // createMissing: create
	marking
	unlocking
	auditing // audit: list of the leases
	mending  // audit: create
)

// Reasons of a worker to read no more.
const (
	notEnding uint8 = iota
	toSplit
	toRelease
)

// Verbs of requests. unsure is not one: it means that the lease writer must read
// the lease, because the outcome of its last request is unknown.
const (
	nothing uint8 = iota
	acquire
	checkpoint
	release
	remove
	request
	create
	unsure
)

// promise is an invariant.
type promise uint8

const (
	kept promise = iota
	coversHandled
	monotone
	ordered
	oneOwner
	staleWrite
	fenced
	covered
	single
	repeats
)

// promises in words; the numbers are those of the package documentation.
var promises = [...]string{
	kept:          "",
	coversHandled: "I1, I2 a lease holds a checkpoint past a change that is not handled",
	monotone:      "I3 the checkpoint or the epoch of a lease went back",
	ordered:       "I4 a change is delivered although an earlier one of its key was not handled",
	oneOwner:      "I5 two hosts hold the same epoch of a lease",
	staleWrite:    "I5 a write of a superseded owner landed",
	fenced:        "I5 a delivery begins although another host has acquired the expired lease",
	covered:       "I6 a part of the key space has no lease",
	single:        "I6 a lease delivers what a lease that follows it covers",
	repeats:       "I7 an owner delivers again what a checkpoint has covered",
}

func (s *state) breaks(p promise) {
	if s.broken == kept {
		s.broken = p
	}
}

// touch is called when a write of a lease has landed: its etag has changed.
func (s *state) touch(l uint8) {
	for i := range s.hosts {
		if h := &s.hosts[i]; h.lease == l {
			h.fresh, h.write.fresh = 0, 0
		}
	}
	for i := range s.delayed {
		if d := &s.delayed[i]; d.verb != nothing && d.verb != create && d.lease == l && d.force == 0 {
			*d = delayed{} // a conflict without a receiver
		}
	}
}

// stop ends a worker: the host is free for another lease.
func (h *host) stop() { *h = host{gaps: h.gaps} }

// lose ends a worker, if necessary when its handler has returned.
func (h *host) lose() {
	if h.calls == 0 {
		h.stop()
		return
	}
	*h = host{doing: lost, lease: h.lease, epoch: h.epoch, read: h.read, acked: h.acked, calls: 1, stolen: h.stolen, gaps: h.gaps}
}

// endWithRelease ends reading, so that the lease is released.
func (h *host) endWithRelease() { h.doing, h.ending, h.todo = working, toRelease, 0 }

// delay keeps a request without a waiting sender, so that it can land later. It
// drops the request if there is no room.
func (s *state) delay(d delayed) bool {
	for i := range s.delayed {
		if s.delayed[i].verb == nothing {
			s.delayed[i] = d
			return true
		}
	}
	return false
}
