// Package finished is the form in which a lease tells which changes behind its
// continuation are finished, so that a failing key neither stops reading nor makes the
// next owner repeat the work on other keys.
//
// A [Value] holds a position Q and one mark for each logical key that has unfinished
// changes up to Q: the LSN of the first of them. Every change of the feed from the
// continuation up to Q is finished or belongs to a marked key. The next owner reads from
// the continuation and passes over what [Value.Finished] reports; a marked key is delivered
// again from its mark on, without a gap. The offset map of Confluent's Parallel Consumer
// (state/PartitionState) serves the same end with one entry for each unfinished record. Here
// the entries are keys, because changes of several keys may share one LSN.
//
// A value belongs to one continuation, epoch, feed mode, phase and filter. If one of these
// differs, it is void, and the next owner delivers everything from the continuation on: a
// missing skip only repeats a change, and a wrong one loses it.
package finished

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
)

// Property is the name of the lease's property that holds a value.
const Property = "halley.finished"

// MaxMarks is the number of marks that a value may have. Each takes about 14 bytes.
const MaxMarks = 64

// formVersion is the version of the stored form. A value of another version is void.
const formVersion = 1

// Binding is that to which a value belongs.
type Binding struct {
	Continuation string `json:"continuation"`     // of the lease
	Epoch        int64  `json:"epoch"`            // of the owner that wrote it, or that has acquired the lease since
	Mode         string `json:"mode"`             // change feed mode
	Phase        string `json:"phase,omitempty"`  // of the function
	Filter       string `json:"filter,omitempty"` // hash of the function's filter
}

// Value tells which changes behind a continuation are finished.
type Value struct {
	Binding
	Reached int64            `json:"to"`                // the position Q, as an LSN
	RetryAt int64            `json:"retryAt,omitempty"` // when the first retry is due, on the service's clock in Unix seconds; 0 if none is planned
	Marks   map[uint64]int64 `json:"-"`                 // by key, see KeyOf: LSN of its first unfinished change, at most Reached
}

// keyBytes is the length of a key's hash in a mark. If a second key has the same hash, its
// changes from the mark on are delivered again as well.
const keyBytes = 5

// KeyOf shortens the hash of a logical key to the length of those in marks.
func KeyOf(hash uint64) uint64 { return hash >> (64 - 8*keyBytes) }

// Finished reports whether a change between the continuation and Q is finished. key is the
// short hash of its logical key.
func (v *Value) Finished(key uint64, lsn int64) bool {
	first, isMarked := v.Marks[key]
	return lsn <= v.Reached && (!isMarked || lsn < first)
}

// stored is the form in the lease.
type stored struct {
	Version int `json:"v"`
	Value
	Marks string `json:"marks,omitempty"` // base64 of the key's bytes and the varint Reached - LSN, for each, by key
}

// Encode returns the value as the property holds it.
func (v Value) Encode() string {
	var marks []byte
	for _, key := range slices.Sorted(maps.Keys(v.Marks)) {
		marks = append(marks, binary.BigEndian.AppendUint64(nil, key)[8-keyBytes:]...)
		marks = binary.AppendUvarint(marks, uint64(v.Reached-v.Marks[key]))
	}
	text, _ := json.Marshal(stored{formVersion, v, base64.RawURLEncoding.EncodeToString(marks)}) // text and numbers always encode
	return string(text)
}

// Parse reads a property. ok is false if it is empty, damaged or of another version.
func Parse(property string) (v Value, ok bool) {
	var s stored
	if json.Unmarshal([]byte(property), &s) != nil || s.Version != formVersion || s.Reached <= 0 {
		return Value{}, false
	}
	marks, err := base64.RawURLEncoding.DecodeString(s.Marks)
	if err != nil {
		return Value{}, false
	}
	v = s.Value
	v.Marks = map[uint64]int64{}
	for last := int64(-1); len(marks) > 0; {
		if len(marks) <= keyBytes || len(v.Marks) == MaxMarks {
			return Value{}, false
		}
		key := binary.BigEndian.Uint64(append(make([]byte, 8-keyBytes), marks[:keyBytes]...))
		distance, n := binary.Uvarint(marks[keyBytes:])
		if n <= 0 || distance > uint64(v.Reached) || int64(key) <= last {
			return Value{}, false
		}
		v.Marks[key] = v.Reached - int64(distance)
		last, marks = int64(key), marks[keyBytes+n:]
	}
	return v, true
}

// Rebind returns a property for the owner of a further epoch, or "" if the property is void:
// it is damaged, or does not belong to the continuation and the epoch that the lease has.
func Rebind(property, continuation string, epoch, next int64) string {
	v, ok := Parse(property)
	if !ok || v.Continuation != continuation || v.Epoch != epoch || continuation == "" {
		return ""
	}
	v.Epoch = next
	return v.Encode()
}
