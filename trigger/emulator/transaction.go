package emulator

import (
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	"halley/trigger/emulator/epk"
)

// transaction is the work of one request on one logical partition: a single
// operation or a batch. Its operations see each other's effects; other requests see
// them when commit has given all of them one LSN. The lock of the container guards it.
type transaction struct {
	container *container
	partition *partition
	key       epk.Key
	keyText   string
	epk       string
	now       time.Time
	expired   bool // it removes an expired item
	joins     bool // it has the LSN of the transaction before it: both are operations of one bulk request
	staged    map[string]*change
	order     []*change
	versions  []*version // of each operation, if the container keeps them
}

// change is the effect of a transaction on one id.
type change struct {
	before, after *document // nil if there is none
}

// outcome is how one operation went.
type outcome struct {
	status   int
	document *document // the current version; nil if it was deleted
	units    float64
	read     bool // the answer has the document even if the client prefers none
}

// begin starts a transaction. It fails if the range's budget is spent, or if the request
// writes and the region takes no writes of the range. The caller holds the container's lock
// until it has committed or dropped the transaction.
func (c *call) begin(o *container, key epk.Key) (*transaction, error) {
	hash := o.keyDefinition.Hash(key)
	t := &transaction{
		container: o, partition: o.locate(hash), key: key, keyText: key.String(), epk: hash, now: c.now,
		staged: make(map[string]*change, 1),
	}
	if c.writes() && !o.takesWrites(t.partition) {
		return nil, writeForbidden()
	}
	return t, t.partition.budget.admit(c.now)
}

// get returns the current document with this id, nil if there is none.
func (t *transaction) get(id string) *document {
	if ch, ok := t.staged[id]; ok {
		return ch.after
	}
	if i, ok := t.container.items[identity(t.keyText, id)]; ok {
		return i.current
	}
	return t.byRID(id)
}

// byRID finds a document by its resource id, nil if there is none.
func (t *transaction) byRID(id string) *document {
	rid := decodeRID(id)
	if len(rid) != 16 || string(rid[:8]) != string(t.container.ridBytes) {
		return nil
	}
	seq := binary.LittleEndian.Uint64(rid[8:])
	for i := range t.partition.items.after(int64(seq) - 1) {
		if i.seq == seq && i.key() == t.keyText {
			return i.current
		}
		break // the next item is another one
	}
	return nil
}

func (o *container) itemRID(i *item) string { return memberRID(o.ridBytes, typeItem, i.seq) }

// stage records that id becomes newVersion, nil if it is deleted.
func (t *transaction) stage(id string, newVersion *document) {
	oldVersion := t.get(id)
	ch, ok := t.staged[id]
	if !ok {
		ch = &change{before: oldVersion}
		t.staged[id] = ch
		t.order = append(t.order, ch)
	}
	ch.after = newVersion
	t.note(oldVersion, newVersion)
}

// put stages a draft as the next version of i, or as a new item if i is nil. It fails
// if that breaks a unique key.
func (t *transaction) put(d draft, i *item) (*document, error) {
	o := t.container
	if i == nil {
		o.lastSeq++
		i = newItem(t.keyText, d.id, t.epk, o.lastSeq)
	}
	etag := o.newETag()
	doc := &document{item: i, sequence: o.writes, modified: t.now.Unix(), ttl: int32(d.ttl), properties: int32(d.properties), added: int32(len(d.added))}
	doc.expires = o.deadline(doc)
	doc.body = d.finish(o.itemRID(i), o.path, etag, doc.modified)
	if err := t.checkUnique(doc); err != nil {
		return nil, err
	}
	t.stage(d.id, doc)
	return doc, nil
}

// checkKey fails if the document's partition key is not the transaction's.
func (t *transaction) checkKey(d draft) error {
	if d.key.String() == t.keyText {
		return nil
	}
	return fail(http.StatusBadRequest, subPartitionKeyMismatch, "PartitionKey extracted from document doesn't match the one specified in the header. Learn more: https://aka.ms/CosmosDB/sql/errors/wrong-pk-value")
}

func (t *transaction) create(d draft) (outcome, error) {
	if err := t.checkKey(d); err != nil {
		return outcome{}, err
	}
	if t.get(d.id) != nil {
		return outcome{}, conflict("item")
	}
	doc, err := t.put(d, nil)
	if err != nil {
		return outcome{}, err
	}
	return outcome{http.StatusCreated, doc, doc.writeCharge() + t.container.uniqueCharge(), false}, nil
}

func (t *transaction) upsert(d draft, ifMatch string) (outcome, error) {
	if t.get(d.id) == nil {
		return t.create(d)
	}
	return t.replace(d.id, d, ifMatch)
}

func (t *transaction) replace(id string, d draft, ifMatch string) (outcome, error) {
	old, err := t.match(id, ifMatch)
	if err != nil {
		return outcome{}, err
	}
	if err := t.checkKey(d); err != nil {
		return outcome{}, err
	}
	if d.id != old.item.id() {
		return outcome{}, badRequest("The id of an item cannot be changed: the path has %q, the document %q.", old.item.id(), d.id)
	}
	doc, err := t.put(d, old.item)
	if err != nil {
		return outcome{}, err
	}
	return outcome{http.StatusOK, doc, old.replaceCharge(doc) + t.container.uniqueCharge(), false}, nil
}

func (t *transaction) read(id, ifNoneMatch string) (outcome, error) {
	doc := t.get(id)
	if doc == nil {
		return outcome{}, notFound("item")
	}
	if ifNoneMatch != "" && sameETag(ifNoneMatch, doc.etag()) {
		return outcome{http.StatusNotModified, doc, readUnits, true}, nil
	}
	return outcome{http.StatusOK, doc, readCharge(len(doc.body)), true}, nil
}

func (t *transaction) delete(id, ifMatch string) (outcome, error) {
	old, err := t.match(id, ifMatch)
	if err != nil {
		return outcome{}, err
	}
	t.stage(old.item.id(), nil)
	return outcome{http.StatusNoContent, nil, old.writeCharge(), false}, nil
}

// match finds the document with this id. It fails if there is none or if its etag is
// not the one of If-Match.
func (t *transaction) match(id, ifMatch string) (*document, error) {
	doc := t.get(id)
	if doc == nil {
		return nil, notFound("item")
	}
	if ifMatch != "" && ifMatch != "*" && !sameETag(ifMatch, doc.etag()) {
		return nil, preconditionFailed()
	}
	return doc, nil
}

func sameETag(a, b string) bool { return strings.Trim(a, `"`) == strings.Trim(b, `"`) }

// commit applies the staged changes to the container, and queues them for the store and for
// other regions. An
// expiry takes no LSN (recorded answers of a hosted account, October 2026), unless it is a
// version that readers are to find.
func (t *transaction) commit() {
	if len(t.order) == 0 {
		return
	}
	if !t.joins && (!t.expired || t.container.logging) {
		t.partition.lsn++
	}
	t.install()
	if t.container.copied != nil {
		ship(t)
	}
}

// install makes the staged changes those of the range's newest LSN.
func (t *transaction) install() {
	for _, ch := range t.order {
		t.apply(ch)
	}
	if !t.expired {
		t.partition.ownLSN = t.partition.lsn
	}
	t.log()
	t.container.ticket = t.save()
}

// apply moves an item from one version to the next.
func (t *transaction) apply(ch *change) {
	o, p := t.container, t.partition
	if oldVersion := ch.before; oldVersion != nil {
		oldVersion.superseded = true
		o.releaseUnique(oldVersion)
		p.log.discard()
		if ch.after == nil || ch.after.item != oldVersion.item {
			oldVersion.item.current = nil
			p.items.discard()
			delete(o.items, oldVersion.item.name())
		}
	}
	if ch.after != nil {
		ch.after.lsn = p.lsn
		o.publish(ch.after, p)
	}
}

// publish makes doc the newest version of its item and of p.
func (o *container) publish(doc *document, p *partition) {
	if doc.item.current == nil {
		p.items.insert(doc.item)
		o.items[doc.item.name()] = doc.item
	}
	doc.item.current = doc
	o.reserveUnique(doc)
	p.log.push(doc)
	o.schedule(doc)
}
