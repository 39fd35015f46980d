package emulator

import (
	"container/heap"
	"time"
)

// expiry is a heap of documents by the time at which they expire. When their time
// comes, documents are skipped if they were superseded since.
type expiry []*document

func (e expiry) Len() int      { return len(e) }
func (e expiry) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e expiry) Less(i, j int) bool {
	if e[i].expires != e[j].expires {
		return e[i].expires < e[j].expires
	}
	return e[i].sequence < e[j].sequence
}
func (e *expiry) Push(x any) { *e = append(*e, x.(*document)) }
func (e *expiry) Pop() any {
	last := len(*e) - 1
	doc := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return doc
}

// deadline returns when doc expires: by its own ttl or, if it has none, by the
// container's, and never if the container has none
// (https://learn.microsoft.com/azure/cosmos-db/nosql/time-to-live). When a
// definition changes, documents expire no earlier than the change. 0 = never.
func (o *container) deadline(doc *document) int64 {
	ttl := int64(doc.ttl)
	if ttl == 0 {
		ttl = o.ttl
	}
	if o.ttl == 0 || ttl < 0 {
		return 0
	}
	return max(doc.modified+ttl, o.Modified)
}

func (o *container) schedule(doc *document) {
	if doc.expires != 0 {
		heap.Push(&o.expiry, doc)
	}
}

// rescheduleExpiry applies a changed default to all documents.
func (o *container) rescheduleExpiry() {
	o.expiry = nil
	for _, i := range o.items {
		i.current.expires = o.deadline(i.current)
		o.schedule(i.current)
	}
}

// expire deletes the documents that have expired by now, in the order and with the
// times of their deadlines. In a region that does not write their range, the deletes of the
// region that does arrive later. Like deletes they do not appear in the latest-version feed.
func expire(o *container, now time.Time) {
	for len(o.expiry) > 0 && o.expiry[0].expires <= now.Unix() {
		doc := heap.Pop(&o.expiry).(*document)
		p := o.locate(doc.item.epk())
		if doc.superseded || !o.takesWrites(p) {
			continue
		}
		t := &transaction{
			container: o, partition: p, now: time.Unix(doc.expires, 0), expired: true,
			order: []*change{{before: doc}},
		}
		t.note(doc, nil)
		t.commit()
	}
}
