package model

// Rules are the mistakes that a protocol can make. If none is set, the model
// follows the protocol of package trigger.
type Rules struct {
	// Ownership of a lease.
	OwnerByName      bool // heldBy compares only the name
	NoIncarnation    bool // heldBy compares name and epoch
	EpochNotRaised   bool // acquire leaves the epoch as it is
	BlindAdoption    bool // after a conflict the etag is adopted, even if another host wrote it
	ForceAfterLoss   bool // if an answer is lost, the write is repeated without If-Match
	ForceAcquire     bool // acquire sends no If-Match
	ForceRequest     bool // the handover request sends no If-Match
	ReleaseUnchecked bool // after a conflict a release is repeated, even if another host owns the lease
	NoFence          bool // deliveries begin without leaseWriter.WaitTrusted
	TrustByReading   bool // if a host reads that it owns the lease, this counts as a renewal
	TrustLateAcquire bool // the same, but only in acquire
	ReleaseAtRead    bool // release saves the continuation that was read

	// Checkpoints.
	CheckpointFirst bool // changes are acknowledged before the handler is called

	// Splits.
	SplitAtRead       bool // children begin at the continuation that was read
	DeleteParentFirst bool // the children come after the delete
	ForceDelete       bool // the parent is deleted without If-Match
	CreateOverwrites  bool // children are upserted
	NoCoverageCheck   bool // children are created even if other leases cover them
	AncestorsCover    bool // any other lease counts in that check, not only descendants
	SplitUnconfirmed  bool // children are created without a write that confirms ownership when the range is gone
	LostCreateIsDone  bool // a child counts as created even if its creation was not answered
	WaitForSplit      bool // a split is awaited even if the range has merged again
	ResumeParent      bool // a lease is worked on although it has children

	// Bootstrap and audit.
	MarkerFirst     bool // the marker comes before the leases
	LockNotFenced   bool // a host still creates leases when its lock may have been broken
	NowNotConcrete  bool // the owner, not the creator, of a lease resolves "now"
	AuditFromNow    bool // a lease that audit created begins at "now"
	AuditEpochReset bool // and with epoch 0
}

// heldBy compares the owner fields of a lease with a host.
func (m *model) heldBy(l *lease, i int, epoch uint8) bool {
	switch r := &m.Rules; {
	case l.there == 0:
		return false
	case r.OwnerByName:
		return l.owner == m.name(i)+1
	case r.NoIncarnation:
		return l.owner == m.name(i)+1 && l.epoch == epoch
	}
	return l.owner == m.name(i)+1 && l.by == uint8(i)+1 && l.epoch == epoch
}
