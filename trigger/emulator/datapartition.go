package emulator

import "sync"

// dataPartition is a physical partition of the account. The containers of a database with
// shared throughput lie in one and share its sequence of LSNs, in which the database takes 1,
// and each container and each transaction takes the next one (recorded answers of a hosted
// account, October 2026). Another container has a data partition for itself, of which it uses
// the lock only: its ranges have sequences of their own.
type dataPartition struct {
	mu       sync.Mutex // guards the containers that lie here; never held across waiting
	ticket   uint64     // newest store ticket of these
	sequence sequence
}

// sequence counts the transactions of a range, or of the data partition in which it lies.
type sequence struct {
	lsn int64 // of the newest transaction
}

// newest returns the newest LSN of the sequence that containers share, 0 if none do.
func (d *dataPartition) newest() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sequence.lsn
}

// enter gives a new container the data partition in which it lies. The caller holds the
// account's mu, or opens the account.
func (o *container) enter() {
	o.dataPartition = &dataPartition{}
	if o.sharesThroughput() {
		o.dataPartition = &o.database.shared
	}
}

// sharesThroughput reports whether the offer of the database pays for the container.
func (o *container) sharesThroughput() bool {
	return o.Throughput == nil && o.database.Throughput != nil
}

// firstSequence returns the sequence of a range that the container had when it was created or
// opened. In an account with several regions each container has its own. A container that has several ranges, as after a split, has left the sequence of its
// database, and does not return.
func (o *container) firstSequence() *sequence {
	if o.platform.regions == nil && o.sharesThroughput() && len(o.Partitions) == 1 && o.Topology == 0 {
		return &o.dataPartition.sequence
	}
	return &sequence{}
}
