package emulator

import (
	"container/heap"
	"time"
)

// expiry orders documents by the time at which they end. Documents that were
// superseded since are passed over when their time comes.
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

// deadline is when doc expires: by its own ttl or the container's, and only in a
// container that has one
// (https://learn.microsoft.com/azure/cosmos-db/nosql/time-to-live). A definition
// ends nothing before it was made. 0 = never.
func (o *container) deadline(doc *document) int64 {
	ttl := doc.ttl
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

// expire deletes what has ended by now, in the order and with the times of the
// ends. Like any delete each takes an LSN and is no change in the latest-version
// feed.
func (o *container) expire(now time.Time) {
	for len(o.expiry) > 0 && o.expiry[0].expires <= now.Unix() {
		doc := heap.Pop(&o.expiry).(*document)
		if doc.superseded {
			continue
		}
		t := &transaction{
			container: o, partition: o.locate(doc.item.epk), now: time.Unix(doc.expires, 0), expired: true,
			order: []*change{{before: doc}},
		}
		t.note(doc, nil)
		t.commit()
	}
}
