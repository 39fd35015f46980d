package trigger

import (
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"

	"halley/trigger/cosmos"
)

// change is an item as a handler gets it, its bytes appended to buffer.
func (f *function) change(p *pending, buffer *[]byte) Change {
	keep := func(raw []byte) json.RawMessage {
		if raw == nil {
			return nil
		}
		from := len(*buffer)
		*buffer = append(*buffer, raw...)
		return json.RawMessage((*buffer)[from:len(*buffer):len(*buffer)])
	}
	c := Change{
		Operation: p.item.Operation,
		Document:  keep(p.item.Document), Previous: keep(p.item.Previous), Key: keep(p.item.PartitionKey),
		LSN: p.item.LSN, Time: time.Unix(p.item.Timestamp, 0).UTC(), ID: p.item.ID, ordinal: p.ordinal,
	}
	if c.Operation == "" {
		c.Operation = Upsert
		if f.SoftDelete != "" && marked(c.Document, f.SoftDelete) {
			c.Operation = Delete
		}
	}
	return c
}

// bytes is what a change takes up in a batch.
func (p *pending) bytes() int {
	return len(p.item.Document) + len(p.item.Previous) + len(p.item.PartitionKey)
}

// marked reports whether a document has a property that is true.
func marked(document []byte, property string) bool {
	return valueAt(document, []string{property}) == true
}

// keyOf is the logical partition key of an item. A delete has no document: its
// metadata name the key, by path or as a list; else the image before tells.
func keyOf(item cosmos.Item, paths []string) string {
	switch {
	case item.Document != nil:
		return logicalKey(item.Document, paths)
	case item.Previous != nil:
		return logicalKey(item.Previous, paths)
	}
	var values []any
	if json.Unmarshal(item.PartitionKey, &values) == nil {
		key, _ := json.Marshal(values) // decoded from JSON, so it encodes
		return string(key)
	}
	return logicalKey(item.PartitionKey, paths)
}

// idOf is the id of the document that an item is about.
func idOf(item cosmos.Item) string {
	switch {
	case item.ID != "":
		return item.ID
	case item.Document != nil:
		return documentID(item.Document)
	}
	return documentID(item.Previous)
}

// retentionAlert is the share of the change feed's retention at which a range
// that is behind is reported.
const retentionAlert = 0.5

// watchRetention reports a range whose changes are about to fall out of the
// container's retention, while there is time to do something.
func (w *worker) watchRetention(page *cosmos.Page) {
	if w.f.Mode != cosmos.AllVersions || w.f.store.retention == 0 || len(page.Items) == 0 {
		return
	}
	age := w.f.store.now().Sub(time.Unix(page.Items[0].Timestamp, 0))
	if age < time.Duration(retentionAlert*float64(w.f.store.retention)) {
		return
	}
	left := w.f.store.retention - age
	w.tally.trouble(fmt.Errorf("the range is %s behind, and changes are kept for %s only: in %s some will be lost",
		age.Round(time.Second), w.f.store.retention, left.Round(time.Second)))
	w.log.Error("range falls behind its retention", zap.Duration("behind", age), zap.Duration("retention", w.f.store.retention))
}
