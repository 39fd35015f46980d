package delivery

// pageSize decides how many changes the first page of the next owner has. If the positions
// inside a page have no names, only a page that is finished moves the position, and an owner
// may have less time than a page takes:
//
//  1. Host A drains a merged range for 3 s. It handles 50 of the 100 changes of a page. It can
//     save no position before the end of the page, so it saves 1 as the size of the first page.
//  2. Host B reads a page of one transaction, and each further page has twice as many changes as
//     the one before. It finishes pages of 1, 2, 4, 8 and 16 changes, which its position passes,
//     and a part of the next page. The size stays in the lease.
//  3. Once a whole page of full size is finished, or all of the feed, the size is dropped.
//
// So each owner that can finish one transaction moves the position, and repeats about as many
// changes at most as it has finished. The progress owns it and guards it.
type pageSize struct {
	inherited int   // of the owner before; 0 if it has saved none
	full      int64 // changes in a page of full size
	fit       bool  // pages of full size are finished, or need not be
	moved     bool  // this owner has moved A or Q
}

// firstPageItems returns the number of changes in the first page of the next owner, 0 if it
// is that of all pages. The lock is held.
func (p *progress) firstPageItems() int {
	switch {
	case p.keepsFinished():
		return 1
	case p.pages.fit:
		return 0
	case p.pages.moved || len(p.openPages) == 0 || p.isHeld():
		return p.pages.inherited
	}
	if o := p.openPages[0]; o.passed > 0 && !o.areNamed {
		return 1
	}
	return p.pages.inherited
}

// keepsFinished reports whether a change that is set aside keeps this owner's position before
// finished changes of its page: a shorter page, which ends before it, would pass them. The lock
// is held.
func (p *progress) keepsFinished() bool {
	return !p.pages.moved && !p.keepsMarks() && p.isHeld() && p.aside[0].seq > p.acknowledged.seq+1
}

// isHeld reports whether a change that is set aside stands behind A and before finished changes.
// The lock is held.
func (p *progress) isHeld() bool {
	return len(p.aside) > 0 && p.aside[0].seq <= p.passedSeq
}

// concludePages decides at the end of the work on the range. readAll says that everything in
// the feed was read.
func (p *progress) concludePages(readAll bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages.fit = p.pages.fit || readAll && len(p.openPages) == 0
	p.pages = pageSize{inherited: p.firstPageItems(), moved: true}
}
