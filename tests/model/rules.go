package model

// Rules are the mistakes that a protocol can make. Without any it is the one
// that package trigger follows.
type Rules struct {
	// Who holds a lease.
	OwnerByName        bool // heldBy compares the name alone
	NoIncarnation      bool // heldBy compares name and epoch
	EpochNotRaised     bool // acquire leaves the epoch as it is
	BlindAdoption      bool // after a conflict the etag is adopted, whoever wrote it
	ForceAfterLoss     bool // after a lost answer the write is repeated without If-Match
	ForceAcquire       bool // acquire sends no If-Match
	ForceAsk           bool // the request for a handover sends no If-Match
	ReleaseUnchecked   bool // after a conflict a release is repeated, whoever owns the lease
	NoFence            bool // deliveries begin without keeper.await
	TrustByReading     bool // a lease that was read and found ours counts as renewed
	TrustLateAcquire   bool // the same, in acquire alone
	ReleaseWhatWasRead bool // release saves the continuation that was read

	// What a checkpoint says.
	CheckpointFirst bool // changes are acknowledged before the handler is called

	// Splits.
	SplitAtRead       bool // children begin at the continuation that was read
	DeleteParentFirst bool // the children come after the delete
	ForceDelete       bool // the parent is deleted without If-Match
	CreateOverwrites  bool // children are upserted
	NoCoverageCheck   bool // children are created whatever other leases cover
	AncestorsCover    bool // any other lease counts in that check, not only descendants
	SplitUnconfirmed  bool // children are created without a write that proves the lease after the range was gone
	LostCreateIsDone  bool // a child whose creation was not answered counts as created
	WaitForSplit      bool // a split whose range has merged again is waited for
	ResumeParent      bool // a lease is worked on although it has children

	// Bootstrap and audit.
	MarkerFirst     bool // the marker comes before the leases
	LockNotFenced   bool // a host whose lock may have been broken goes on creating leases
	NowNotConcrete  bool // "now" is left for whoever acquires the lease
	AuditFromNow    bool // a lease that audit created begins at "now"
	AuditEpochReset bool // and with epoch 0
}

// heldBy is lease.heldBy.
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
