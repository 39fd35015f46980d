package emulator

import (
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

func (o *container) versionBucket() string { return fmt.Sprint("versions-", o.Number) }

func (v *version) key() []byte { return binary.BigEndian.AppendUint64(nil, v.seq) }

func (o *container) versionRecord(v *version) record {
	return record{o.versionBucket(), v.key(), v.appendRecord(nil)}
}

// removeVersions removes trimmed versions from the store. No call waits for it: if
// a crash loses the removal, the versions are trimmed again.
func (o *container) removeVersions(p *partition, old []*version) {
	if o.platform.store == nil {
		return
	}
	records := []record{o.lsnRecord(p)}
	for _, v := range old {
		records = append(records, record{o.versionBucket(), v.key(), nil})
	}
	o.platform.store.enqueue(records...)
}

// appendRecord appends the stored form: LSN, time, whether it expired, the
// identity of the item, and the records of both images, each of which may be
// empty.
func (v *version) appendRecord(b []byte) []byte {
	b = binary.AppendVarint(b, v.lsn)
	b = binary.AppendVarint(b, v.time)
	expired := byte(0)
	if v.expired {
		expired = 1
	}
	b = append(b, expired)
	b = appendPart(b, []byte(v.item().name()))
	for _, image := range []*document{v.previous, v.current} {
		var text []byte
		if image != nil {
			text = image.appendRecord(nil)
		}
		b = appendPart(b, text)
	}
	return b
}

func appendPart(b, part []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

var errCorruptVersion = errors.New("a version record is corrupt")

// readVersion is the inverse of version.key and appendRecord.
func readVersion(key, value []byte) (*version, error) {
	if len(key) != 8 {
		return nil, errCorruptVersion
	}
	v := &version{seq: binary.BigEndian.Uint64(key)}
	for _, number := range []*int64{&v.lsn, &v.time} {
		n, size := binary.Varint(value)
		if size <= 0 {
			return nil, errCorruptVersion
		}
		*number, value = n, value[size:]
	}
	if len(value) == 0 {
		return nil, errCorruptVersion
	}
	v.expired, value = value[0] == 1, value[1:]
	return v, v.readImages(value)
}

func (v *version) readImages(value []byte) error {
	var parts [3][]byte
	for i := range parts {
		n, size := binary.Uvarint(value)
		if size <= 0 || n > uint64(len(value)-size) {
			return errCorruptVersion
		}
		parts[i], value = value[size:size+int(n)], value[size+int(n):]
	}
	for i, image := range []**document{&v.previous, &v.current} {
		if len(parts[i+1]) == 0 {
			continue
		}
		doc, err := readRecord(parts[0], parts[i+1])
		if err != nil {
			return err
		}
		*image = doc
	}
	if v.previous == nil && v.current == nil {
		return errCorruptVersion
	}
	return nil
}

// loadVersions puts versions back into the logs of their ranges when the account is
// opened. In each range their sequence numbers are in the order of their LSNs.
func (o *container) loadVersions(tx *bolt.Tx) error {
	return each(tx, o.versionBucket(), func(key, value []byte) error {
		v, err := readVersion(key, value)
		if err != nil {
			return err
		}
		log := &o.locate(v.item().epk()).versions
		log.kept = append(log.kept, v)
		o.logged = v.seq + 1
		return nil
	})
}
