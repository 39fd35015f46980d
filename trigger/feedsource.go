package trigger

import (
	"halley/trigger/cosmos"
	"halley/trigger/internal/lease"
)

// FeedSource is the change feed that a function reads, and the names under which its hosts
// keep their leases. It is enough to find the leases and to measure their lag, without the
// handler and in another process: see [EstimateLag].
type FeedSource struct {
	// Name is the function's name in logs, errors, events and dead letters.
	Name string
	// LeasePrefix is the processor name: lease ids begin with it, and functions
	// that share a lease container differ in it. It cannot contain / \ ? #. By
	// default it is Name; NoLeasePrefix is the empty prefix.
	LeasePrefix string
	// Container is the monitored container.
	Container *cosmos.Container
	// ChangeFeedMode selects latest versions (the default) or all versions. All
	// versions need a container with a change feed policy that was never merged,
	// and begin now, with a snapshot ([FromSnapshot]) or at a continuation. Leases record their mode, and it cannot
	// be changed. If a range is behind by half of the policy's retention, its
	// Status says so. Changes that are not delivered before the retention ends
	// are lost, and the range then waits until an operator deletes its lease, or moves it
	// to a new snapshot.
	ChangeFeedMode cosmos.Mode
	// StartFrom is the position of a range without a checkpoint; by default now.
	StartFrom Start
}

// NoLeasePrefix is the [FeedSource.LeasePrefix] of leases whose ids begin with the
// account's host name, as those of the Azure Functions trigger do unless its
// leaseContainerPrefix is set.
const NoLeasePrefix = lease.NoPrefix

// leasePrefix returns the text before the account's host name in lease ids.
func (s FeedSource) leasePrefix() string { return lease.IDPrefix(s.Name, s.LeasePrefix) }
