package emulator

// Manners choose between answers of which neither a recording nor the documentation tells
// which one the service gives: clients must be right with each of them. The zero value is
// what the account does by default.
type Manners struct {
	// CutBelowNext gives a page of the change feed that is cut by its item count the etag
	// just below the next change; by default that of its last change.
	CutBelowNext bool
	// FullAsCut gives a page that reaches the end and is exactly full the etag of its last
	// change, as if others followed; by default that of the newest LSN, as of any page that
	// reaches the end.
	FullAsCut bool
	// IdleKeepsETag repeats the etag of a request in its answer 304; by default the etag
	// moves with the newest LSN.
	IdleKeepsETag bool
	// OwnLSNs keeps etags at the newest LSN of the range's own container; by default they
	// pass those of other containers in its data partition, too.
	OwnLSNs bool
	// EmptyPages answers 200 without an item and with a later etag if no change that the
	// feed shows has the LSN after the etag of the request, although others follow.
	EmptyPages bool
	// RefuseAhead answers a read of the change feed with 400 if the range has not reached the
	// etag of the request; by default it has nothing new, and its etag is that of the newest LSN.
	RefuseAhead bool
	// HideCommitted leaves out of answers up to which LSN all regions have the range.
	HideCommitted bool
	// FailoverKeepsVersion keeps the version of a range's session tokens when another region
	// takes its writes; by default it rises, so that tokens of before are not compared.
	FailoverKeepsVersion bool
	// FailoverSkipsLSNs continues behind the LSNs of lost writes after an unplanned failover;
	// by default new writes get them again.
	FailoverSkipsLSNs bool
}

// cutLSN is the LSN of a page that is cut after its last change.
func (m Manners) cutLSN(last, next int64) int64 {
	if m.CutBelowNext {
		return next - 1
	}
	return last
}

// newest returns the LSN that an etag at the end of the range names.
func (p *partition) newest(m Manners) int64 {
	if m.OwnLSNs && p.ownLSN > 0 {
		return p.ownLSN
	}
	return p.lsn
}
