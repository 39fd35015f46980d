package simulation

import (
	"encoding/json"
	"strconv"
	"testing"

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

// storedDocument is the text of a document in its container.
type storedDocument struct {
	ID    string          `json:"id"`
	Key   json.RawMessage `json:"key"`
	Seq   int64           `json:"seq"`
	Noise bool            `json:"noise,omitempty"`
	Gone  bool            `json:"gone,omitempty"`
}

// MarshalJSON writes the key of a document in the next spelling if it is a number.
func (d document) MarshalJSON() ([]byte, error) {
	key := strconv.AppendQuote(nil, d.Key)
	if number, ok := numberKeys[d.Key]; ok {
		key = []byte(number.spellings[d.Seq%int64(len(number.spellings))])
	}
	return json.Marshal(storedDocument{d.ID, key, d.Seq, d.Noise, d.Gone})
}

// UnmarshalJSON reads the key of a document, in any spelling.
func (d *document) UnmarshalJSON(text []byte) error {
	var stored storedDocument
	if err := json.Unmarshal(text, &stored); err != nil {
		return err
	}
	*d = document{ID: stored.ID, Seq: stored.Seq, Noise: stored.Noise, Gone: stored.Gone}
	if json.Unmarshal(stored.Key, &d.Key) == nil {
		return nil
	}
	var value float64
	if err := json.Unmarshal(stored.Key, &value); err != nil {
		return err
	}
	for name, number := range numberKeys {
		if number.value == value {
			d.Key = name
		}
	}
	return nil
}

// TestDocumentIsReadAsWritten: every field of a document, and each spelling of its key,
// comes back.
func TestDocumentIsReadAsWritten(t *testing.T) {
	for seq := range int64(5) {
		for _, key := range []string{"k0", "k1", "k2"} {
			written := document{ID: key + "-0", Key: key, Seq: seq, Noise: true, Gone: true}
			text, err := json.Marshal(written)
			if err != nil {
				t.Fatal(err)
			}
			var read document
			if err := json.Unmarshal(text, &read); err != nil || read != written {
				t.Errorf("%+v is stored as %s and read as %+v (%v)", written, text, read, err)
			}
		}
	}
}
