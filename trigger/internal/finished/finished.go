// Package finished is the form in which a lease tells which changes behind its
// continuation are finished, so that a failing key neither stops reading nor makes the
// next owner repeat the work on other keys.
//
// A [Value] holds a position Q and one [Mark] for each logical key that has unfinished
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
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
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
	Reached int64  // the position Q, as an LSN
	RetryAt int64  // when the first retry is due, on the service's clock in Unix seconds; 0 if none is planned
	Marks   []Mark // by key, at most MaxMarks
}

// Mark is the LSN of the first unfinished change of a key.
type Mark struct {
	Key uint64 // hash of the logical key, see KeyOf
	LSN int64  // at most Value.Reached
}

// keyBits is the length of a key's hash in a mark. If a second key has the same hash, its
// changes from the mark on are delivered again as well.
const keyBits = 40

// KeyOf shortens the hash of a logical key to the length of those in marks.
func KeyOf(hash uint64) uint64 { return hash >> (64 - keyBits) }

// Finished reports whether a change between the continuation and Q is finished. key is the
// short hash of its logical key.
func (v *Value) Finished(key uint64, lsn int64) bool {
	if lsn > v.Reached {
		return false
	}
	i, marked := slices.BinarySearchFunc(v.Marks, key, func(m Mark, key uint64) int { return cmp.Compare(m.Key, key) })
	return !marked || lsn < v.Marks[i].LSN
}

// stored is the form in the lease.
type stored struct {
	Version int `json:"v"`
	Binding
	Reached int64  `json:"to"`
	RetryAt int64  `json:"retryAt,omitempty"`
	Marks   string `json:"marks,omitempty"` // base64 of the key's 5 bytes and the varint Reached - LSN, for each
}

// Encode returns the value as the property holds it. Its marks are sorted by key.
func (v Value) Encode() string {
	var marks []byte
	for _, m := range v.Marks {
		var key [8]byte
		binary.BigEndian.PutUint64(key[:], m.Key)
		marks = append(marks, key[8-keyBits/8:]...)
		marks = binary.AppendUvarint(marks, uint64(v.Reached-m.LSN))
	}
	text, _ := json.Marshal(stored{formVersion, v.Binding, v.Reached, v.RetryAt, base64.RawURLEncoding.EncodeToString(marks)}) // text and numbers always encode
	return string(text)
}

// Parse reads a property. ok is false if it is empty, damaged or of another version.
func Parse(property string) (v Value, ok bool) {
	var s stored
	if json.Unmarshal([]byte(property), &s) != nil || s.Version != formVersion {
		return Value{}, false
	}
	marks, err := base64.RawURLEncoding.DecodeString(s.Marks)
	if err != nil {
		return Value{}, false
	}
	v = Value{Binding: s.Binding, Reached: s.Reached, RetryAt: s.RetryAt}
	for r := bytes.NewReader(marks); r.Len() > 0; {
		var key [8]byte
		if n, _ := r.Read(key[8-keyBits/8:]); n < keyBits/8 {
			return Value{}, false
		}
		behind, err := binary.ReadUvarint(r)
		if err != nil || behind > uint64(v.Reached) {
			return Value{}, false
		}
		v.Marks = append(v.Marks, Mark{binary.BigEndian.Uint64(key[:]), v.Reached - int64(behind)})
	}
	if v.Reached <= 0 || len(v.Marks) > MaxMarks || !slices.IsSortedFunc(v.Marks, func(a, b Mark) int { return cmp.Compare(a.Key, b.Key) }) {
		return Value{}, false
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
