package emulator

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// The layout of the store:
//
//	account     meta                    → metadata as JSON
//	databases   number                  → database as JSON
//	containers  number                  → container as JSON, without its items
//	items-N     partition key, 0, id    → document, see appendRecord
//	versions-N  sequence number         → version, see version.appendRecord
//	state-N     range id                → LSN of the range's newest transaction; with
//	                                      versions also that of the last trimmed one
//	            "writes"                → writes and sequence numbers of the container
//
// N is the number of a container; numbers and LSNs are big-endian.
const (
	accountBucket   = "account"
	databaseBucket  = "databases"
	containerBucket = "containers"
)

var (
	metaKey   = []byte("meta")
	writesKey = []byte("writes")
)

// format is the version of the layout.
const format = 1

type metadata struct {
	Format  int    `json:"format"`
	Seed    uint32 `json:"seed"`
	Created uint32 `json:"created"`
	Writes  uint64 `json:"writes"`
	Master  int64  `json:"master,omitempty"`
}

func (o *container) itemBucket() string  { return fmt.Sprint("items-", o.Number) }
func (o *container) stateBucket() string { return fmt.Sprint("state-", o.Number) }

func numberKey(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
func lsnValue(n int64) []byte   { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// encode returns v as JSON. It panics if v cannot be encoded, which no value of this
// package does.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// metaRecord is saved when one of its counters changes. The caller holds a.mu.
func (a *catalog) metaRecord() record {
	return record{accountBucket, metaKey, encode(metadata{format, a.seed, a.created, a.writes, a.master.Load()})}
}

func (a *catalog) saveDatabase(d *database) uint64 {
	if a.store == nil {
		return 0
	}
	return a.store.enqueue(a.metaRecord(), d.record())
}

// record keeps the LSN of the containers that share the throughput, so that it does not go
// back if the container with the newest one is deleted.
func (d *databaseHead) record() record {
	d.LSN = d.shared.newest()
	return record{databaseBucket, numberKey(d.Number), encode(d)}
}

func (a *catalog) removeDatabase(d *database) uint64 {
	if a.store == nil {
		return 0
	}
	records := []record{a.metaRecord(), {databaseBucket, numberKey(d.Number), nil}}
	for _, o := range d.containers {
		records = append(records, o.removal()...)
	}
	return a.store.enqueue(records...)
}

// saveWithCounters saves a container and the account's counters. The caller holds
// a.mu.
func (a *catalog) saveWithCounters(o *container) uint64 {
	if a.store == nil {
		return 0
	}
	return a.store.enqueue(append(o.records(), a.metaRecord())...)
}

func (o *container) save() uint64 {
	if o.platform.store == nil {
		return 0
	}
	return o.platform.store.enqueue(o.records()...)
}

func (a *catalog) removeContainer(o *container) uint64 {
	if a.store == nil {
		return 0
	}
	return a.store.enqueue(append(o.removal(), o.database.record(), a.metaRecord())...)
}

func (o *container) removal() []record {
	return []record{{containerBucket, numberKey(o.Number), nil}, {bucket: o.itemBucket()}, {bucket: o.versionBucket()}, {bucket: o.stateBucket()}}
}

func (o *container) records() []record {
	records := []record{{containerBucket, numberKey(o.Number), encode(o)}, o.writesRecord()}
	if !o.logging {
		records = append(records, record{bucket: o.versionBucket()})
	}
	for _, p := range o.Partitions {
		records = append(records, o.lsnRecord(p))
	}
	return records
}

func (o *container) lsnRecord(p *partition) record {
	value := lsnValue(p.lsn)
	if o.logging {
		value = append(value, lsnValue(p.versions.trimmed)...)
	}
	return record{o.stateBucket(), []byte(p.ID), value}
}

func (o *container) writesRecord() record {
	value := binary.BigEndian.AppendUint64(nil, o.writes)
	return record{o.stateBucket(), writesKey, binary.BigEndian.AppendUint64(value, o.lastSeq)}
}

// save saves the changes of the transaction.
func (t *transaction) save() uint64 {
	o := t.container
	if o.platform.store == nil {
		return 0
	}
	records := []record{o.lsnRecord(t.partition), o.writesRecord()}
	for _, v := range t.versions {
		records = append(records, o.versionRecord(v))
	}
	for _, ch := range t.order {
		r := record{bucket: o.itemBucket()}
		switch {
		case ch.after != nil:
			r.key, r.value = []byte(ch.after.item.name()), ch.after.appendRecord(nil)
		case ch.before != nil:
			r.key = []byte(ch.before.item.name())
		default:
			continue // created and deleted again within the transaction
		}
		records = append(records, r)
	}
	return o.platform.store.enqueue(records...)
}

// appendRecord appends the stored form: six numbers, two strings and the body. The last
// number has the length of the properties that a patch added in its high 32 bits.
func (d *document) appendRecord(b []byte) []byte {
	for _, n := range []int64{d.lsn, int64(d.sequence), int64(d.item.seq), d.modified, int64(d.ttl), int64(d.added)<<32 | int64(d.properties)} {
		b = binary.AppendVarint(b, n)
	}
	for _, s := range []string{d.item.epk(), d.etag()} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return append(b, d.body...)
}

var errCorrupt = errors.New("an item record is corrupt")

// readRecord is the inverse of identity and appendRecord. It copies from both.
func readRecord(key, value []byte) (*document, error) {
	partitionKey, id, ok := bytes.Cut(key, []byte{0})
	if !ok {
		return nil, errCorrupt
	}
	var numbers [6]int64
	for i := range numbers {
		n, size := binary.Varint(value)
		if size <= 0 {
			return nil, errCorrupt
		}
		numbers[i], value = n, value[size:]
	}
	var texts [2]string
	for i := range texts {
		n, size := binary.Uvarint(value)
		if size <= 0 || n > uint64(len(value)-size) {
			return nil, errCorrupt
		}
		texts[i], value = string(value[size:size+int(n)]), value[size+int(n):]
	}
	return &document{
		item: newItem(string(partitionKey), string(id), texts[0], uint64(numbers[2])), body: bytes.Clone(value),
		lsn: numbers[0], sequence: uint64(numbers[1]), modified: numbers[3], ttl: int32(numbers[4]), properties: int32(numbers[5]), added: int32(numbers[5] >> 32),
	}, nil
}

// open reads the account in a directory, or begins one if the directory is empty.
func (a *catalog) open(directory string) error {
	s, err := openStore(directory, a.options.Log)
	if err != nil {
		return err
	}
	a.store = s
	if err := s.db.View(a.load); err != nil {
		return errors.Join(err, s.db.Close())
	}
	if a.created > 0 {
		return nil // also on a full disk
	}
	return s.wait(s.enqueue(a.metaRecord()))
}

func (a *catalog) load(tx *bolt.Tx) error {
	account := tx.Bucket([]byte(accountBucket))
	if account == nil {
		return nil // new
	}
	var meta metadata
	if err := json.Unmarshal(account.Get(metaKey), &meta); err != nil {
		return fmt.Errorf("read account: %w", err)
	}
	if meta.Format != format {
		return fmt.Errorf("the data have format %d, this emulator reads %d: use another directory", meta.Format, format)
	}
	a.seed, a.created, a.writes = meta.Seed, meta.Created, meta.Writes
	a.master.Store(meta.Master)
	numbers := map[uint32]*database{}
	err := each(tx, databaseBucket, func(_, value []byte) error {
		d := &database{containers: make(map[string]*container)}
		if err := json.Unmarshal(value, d); err != nil {
			return fmt.Errorf("read database: %w", err)
		}
		d.shared.sequence.lsn = d.LSN
		a.databases[d.Name], numbers[d.Number] = d, d
		return nil
	})
	if err != nil {
		return err
	}
	return each(tx, containerBucket, func(_, value []byte) error { return a.loadContainer(tx, numbers, value) })
}

// each calls fn for every key of a bucket. It does nothing if the bucket is missing.
func each(tx *bolt.Tx, bucket string, fn func(key, value []byte) error) error {
	b := tx.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	return b.ForEach(fn)
}

func (a *catalog) loadContainer(tx *bolt.Tx, databases map[uint32]*database, value []byte) error {
	o := &container{platform: a.platform, items: make(map[string]*item)}
	if err := json.Unmarshal(value, o); err != nil {
		return fmt.Errorf("read container: %w", err)
	}
	d, ok := databases[o.Owner]
	if !ok {
		return fmt.Errorf("read container %q: its database is missing", o.Name)
	}
	o.database = &d.databaseHead
	o.enter()
	o.identify()
	definition, err := parseContainer(o.Definition)
	if err != nil {
		return fmt.Errorf("read container %q: %w", o.Name, err)
	}
	o.keyDefinition, o.uniqueKeys, o.ttl, o.retention, o.previous, o.query = definition.key, definition.uniqueKeys, definition.ttl, definition.retention, definition.previous, definition.query
	o.logging = o.retention > 0 && !o.merged()
	if err := o.loadItems(tx); err != nil {
		return fmt.Errorf("read container %q: %w", o.Name, err)
	}
	d.containers[o.Name] = o
	return nil
}

func (o *container) loadItems(tx *bolt.Tx) error {
	state := tx.Bucket([]byte(o.stateBucket()))
	if state == nil {
		return errors.New("its state is missing")
	}
	for _, p := range o.Partitions {
		lsn := state.Get([]byte(p.ID))
		if len(lsn) != 8 && len(lsn) != 16 {
			return fmt.Errorf("the LSN of range %q is missing", p.ID)
		}
		p.sequence = o.firstSequence()
		p.lsn = max(p.lsn, int64(binary.BigEndian.Uint64(lsn)))
		p.versions.trimmed = int64(binary.BigEndian.Uint64(lsn[len(lsn)-8:]))
	}
	if writes := state.Get(writesKey); len(writes) == 16 {
		o.writes, o.lastSeq = binary.BigEndian.Uint64(writes), binary.BigEndian.Uint64(writes[8:])
	}
	var documents []*document
	err := each(tx, o.itemBucket(), func(key, value []byte) error {
		doc, err := readRecord(key, value)
		documents = append(documents, doc)
		return err
	})
	if err == nil {
		o.restore(documents)
		err = o.loadVersions(tx)
	}
	return err
}

// restore puts documents back into their ranges when the account is opened.
func (o *container) restore(documents []*document) {
	o.items = make(map[string]*item, len(documents))
	slices.SortFunc(documents, func(a, b *document) int {
		return cmp.Or(cmp.Compare(a.lsn, b.lsn), cmp.Compare(a.sequence, b.sequence))
	})
	for _, doc := range documents {
		doc.expires = o.deadline(doc)
		o.publish(doc, o.locate(doc.item.epk()))
	}
	for _, p := range o.Partitions {
		slices.SortFunc(p.items.members, func(a, b *item) int { return cmp.Compare(a.seq, b.seq) })
	}
	o.share(o.platform.now())
}
