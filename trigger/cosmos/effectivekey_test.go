package cosmos

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"halley/trigger/emulator/epk"
)

// The vectors of version 2 and version 1 are those of the tests of
// azure-cosmos-dotnet-v3 that package epk cites; here the two implementations are compared.
func TestEffectiveKeyIsThatOfTheService(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	values := []string{`null`, `true`, `false`, `{}`, `0`, `-0`, `-0.0`, `1`, `-1.5`, `1e300`, `5e-324`, `9007199254740993`, `""`, `"a"`, `"Aß漢😀"`, `"\u0000x"`, `"<&>"`}
	for range 200 {
		number, _ := json.Marshal(random.NormFloat64() * 1e6)
		text, _ := json.Marshal(strings.Repeat(string(rune(random.IntN(0x3000)+1)), random.IntN(250)))
		values = append(values, string(number), string(text))
	}
	text, _ := json.Marshal(strings.Repeat("x", 99) + "😀y")
	values = append(values, string(text))
	for _, d := range []PartitionKeyDefinition{
		{Paths: []string{"/a"}}, {Paths: []string{"/a"}, Kind: "Hash", Version: 1}, {Paths: []string{"/a"}, Kind: "Hash", Version: 2},
		{Paths: []string{"/a", "/b"}, Kind: "MultiHash", Version: 2}, {Paths: []string{"/a", "/b", "/c"}, Kind: "MultiHash"},
	} {
		raw, _ := json.Marshal(d)
		service, err := epk.ParseDefinition(raw)
		if err != nil {
			t.Fatal(err)
		}
		for i := range values {
			parts := make([]string, len(d.Paths))
			for n := range parts {
				parts[n] = values[(i+n*7)%len(values)]
			}
			key := "[" + strings.Join(parts, ",") + "]"
			parsed, err := epk.ParseKey(key)
			if err != nil {
				t.Fatal(err)
			}
			got, err := d.EffectiveKey(key)
			if want := service.Hash(parsed); err != nil || got != want {
				t.Fatalf("%v: key %s is at %s (%v), want %s", d, key, got, err, want)
			}
		}
	}
	for _, key := range []string{``, `{}`, `[]`, `["a","b"]`, `[`} {
		if place, err := (PartitionKeyDefinition{Paths: []string{"/a"}, Version: 2}).EffectiveKey(key); err == nil {
			t.Errorf("key %q is at %s", key, place)
		}
	}
}

func TestContainerWithoutKeyIsOneKey(t *testing.T) {
	for _, key := range []string{`[]`, `[{}]`, `["a"]`} {
		if place, err := (PartitionKeyDefinition{}).EffectiveKey(key); place != "" || err != nil {
			t.Errorf("key %s is at %q, %v", key, place, err)
		}
	}
}
