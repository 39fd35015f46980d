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
		if f.SoftDeleteProperty != "" && marked(c.Document, f.SoftDeleteProperty) {
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

// watchRetention logs that a range's changes, of which this is the oldest, are
// about to fall out of the container's retention. Status says so too, for as long
// as they are not finished.
func (w *worker) watchRetention(oldest cosmos.Item) {
	if err := w.retentionAlert(oldest); err != nil {
		w.log.Error("range falls behind its retention", zap.Error(err))
	}
}

// unfinished is the alert of the oldest change that the worker has read and not
// finished.
func (w *worker) unfinished() error {
	oldest, ok := w.progress.oldest()
	if !ok {
		return nil
	}
	return w.retentionAlert(oldest)
}

// retentionAlert is an error while there is time to do something, and after that.
func (w *worker) retentionAlert(oldest cosmos.Item) error {
	retention := w.f.store.retention
	if w.f.ChangeFeedMode != cosmos.AllVersions || retention == 0 || oldest.Timestamp == 0 {
		return nil
	}
	age := w.f.store.now().Sub(time.Unix(oldest.Timestamp, 0))
	if age < time.Duration(retentionAlert*float64(retention)) {
		return nil
	}
	behind := fmt.Sprintf("the range is %s behind, and its changes are kept for %s only", age.Round(time.Second), retention)
	if age >= retention {
		return fmt.Errorf("%s: they are lost unless this host delivers what it has read", behind)
	}
	return fmt.Errorf("%s: in %s the first will be lost", behind, (retention - age).Round(time.Second))
}
