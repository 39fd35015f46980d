package history

// work is what one owner has handled between the acquisition of a lease and its release.
type work struct {
	by       holder
	position int64         // of the lease when it was acquired
	handled  map[Ref]int64 // LSNs
	isStill  bool          // it has released the lease at that position
}

// advances are the last two owners of each lease, by document.
type advances struct{ current, former map[string]*work }

func newAdvances() advances { return advances{map[string]*work{}, map[string]*work{}} }

// beginWork is called when a lease is acquired.
func (c *checker) beginWork(e Event) {
	delete(c.former, e.lid())
	if w := c.current[e.lid()]; w != nil && w.isStill && w.position == e.Position && !c.tamperedWithin(e, e.Time.Sub(c.terms[w.by].began)) {
		c.former[e.lid()] = w
	}
	c.current[e.lid()] = &work{by: holder{e.Host, tenure{e.Range, e.Epoch}}, position: e.Position, handled: map[Ref]int64{}}
}

// handledBy notes a change that an owner has handled.
func (c *checker) handledBy(d Event) {
	if w := c.current[d.Range]; w != nil && w.by == (holder{d.Host, tenure{d.Range, d.Epoch}}) {
		w.handled[Ref{d.Key, d.Seq}] = d.LSN
	}
}

// endWork judges two owners in a row that have released a lease in good order at the position
// at which they had got it. If both have handled the first transaction behind it, it must have
// moved: if the first owner could save no position inside a page, the second one has to read a
// shorter page. A position that only a request of the handler saves is not judged.
func (c *checker) endWork(e Event) {
	w, former := c.current[e.lid()], c.former[e.lid()]
	if w == nil || w.by != (holder{e.Host, tenure{e.Range, e.Epoch}}) {
		return
	}
	w.isStill = e.Position == w.position && !c.answeredOlder[holder{e.Host, tenure{token: e.Range}}] && !c.terms[w.by].shared
	if former == nil || c.limits.Requests || len(former.handled) == 0 || len(w.handled) == 0 {
		return
	}
	c.report.count(Advances, 1, 0)
	if lsn := c.firstOf(w, former, span{e.Min, e.Max}); w.isStill && lsn != 0 {
		c.violate(Advances, "%q and %q have both handled the changes at %d, and released lease %q at %d, where they had got it", former.by.host, e.Host, lsn, e.Range, e.Position)
	}
}

// firstOf returns the LSN of the first transaction behind the position of two owners, if both
// have handled all of it, and 0 if not.
func (c *checker) firstOf(w, former *work, keys span) (lsn int64) {
	areHandled := false
	for _, k := range c.keys {
		for i, change := range k.changes {
			if change.lsn <= w.position || !change.wrote.Before(c.now) || change.hash < keys.min || change.hash >= keys.max || lsn != 0 && change.lsn > lsn {
				continue
			}
			ref := Ref{k.name, int64(i + 1)}
			_, byFormer := former.handled[ref]
			_, isOwn := w.handled[ref]
			areHandled = byFormer && isOwn && (areHandled || change.lsn != lsn)
			lsn = change.lsn
		}
	}
	if !areHandled {
		return 0
	}
	return lsn
}
