package simulation

import (
	"encoding/json"
	"fmt"

	"halley/trigger/cosmos"
	"halley/trigger/emulator/epk"
)

// numberKeys are keys of the simulation that documents hold as a number, in spellings that
// are one key to the service.
var numberKeys = map[string]struct {
	value     float64
	spellings []string
}{
	"k0": {0, []string{"0", "-0", "0.0", "-0.0", "0e5"}},
	"k1": {1, []string{"1", "1.0", "10e-1"}},
}

// partitionKeyOf is the value that the documents of a key hold.
func partitionKeyOf(key string) cosmos.PartitionKey {
	if number, ok := numberKeys[key]; ok {
		return cosmos.NewPartitionKey(number.value)
	}
	return cosmos.NewPartitionKey(key)
}

// hashedKey is the same value for its hash.
func hashedKey(key string) epk.Key {
	if number, ok := numberKeys[key]; ok {
		return epk.Key{epk.Number(number.value)}
	}
	return epk.Key{epk.String(key)}
}

// MarshalJSON writes the key of a document in the next spelling if it is a number.
func (d document) MarshalJSON() ([]byte, error) {
	key, err := json.Marshal(d.Key)
	if number, ok := numberKeys[d.Key]; ok {
		key = []byte(number.spellings[d.Seq%int64(len(number.spellings))])
	}
	return fmt.Appendf(nil, `{"id":%q,"key":%s,"seq":%d}`, d.ID, key, d.Seq), err
}

// UnmarshalJSON reads the key of a document, in any spelling.
func (d *document) UnmarshalJSON(text []byte) error {
	var stored struct {
		ID  string `json:"id"`
		Key any    `json:"key"`
		Seq int64  `json:"seq"`
	}
	if err := json.Unmarshal(text, &stored); err != nil {
		return err
	}
	*d = document{ID: stored.ID, Seq: stored.Seq}
	switch key := stored.Key.(type) {
	case string:
		d.Key = key
	case float64:
		for name, number := range numberKeys {
			if number.value == key {
				d.Key = name
			}
		}
	}
	return nil
}
