package binaryjson

import (
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// vectors are testdata/binary_json_vectors.json of azure_data_cosmos_driver 1.0.0,
// Copyright (c) Microsoft Corporation, MIT License.
//
//go:embed testdata/vectors.json
var vectors []byte

type vector struct {
	Name, Binary string
	JSON         json.RawMessage
}

func (v vector) data(t testing.TB) []byte { return unhex(t, v.Binary) }

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func readVectors(t testing.TB) (list []vector) {
	t.Helper()
	if err := json.Unmarshal(vectors, &list); err != nil || len(list) == 0 {
		t.Fatalf("%d vectors: %v", len(list), err)
	}
	return list
}

const limit = 1 << 20

func TestVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		var got, want any
		text, err := Decode(v.data(t), limit)
		if err != nil || json.Unmarshal(text, &got) != nil || json.Unmarshal(v.JSON, &want) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s, %v, want %s", v.Name, text, err, v.JSON)
		}
	}
}

// TestTexts has forms whose exact text matters.
func TestTexts(t *testing.T) {
	for data, want := range map[string]string{
		"80 C7 FF FF FF FF FF FF FF FF": `18446744073709551615`,
		"80 CB FF FF FF FF FF FF FF 7F": `9223372036854775807`,
		"80 CC 00 00 00 00 00 00 10 40": `4`,
		"80 84 22 5C 0A 3C":             `"\"\\\u000a<"`,
		"80 EA 05 81 62 01 20 02":       `{"b":1,"$s":2}`,
		"80 F2 F0 D7 00 03":             `[[],[],[]]`,
		"80 7B 02 E8 10":                `"èé"`,
	} {
		text, err := Decode(unhex(t, data), limit)
		if err != nil || string(text) != want {
			t.Errorf("%s: %s, %v, want %s", data, text, err, want)
		}
	}
}

func TestBadDataIsRefused(t *testing.T) {
	for data, says := range map[string]string{
		"":                                      "first byte",
		"7B 7D":                                 "first byte",
		"80":                                    "ends inside",
		"80 D0 00":                              "bytes follow",
		"80 40":                                 "dictionary",
		"80 68":                                 "no value begins with 0x68",
		"80 CF 00 00":                           "no value begins with 0xcf",
		"80 FF":                                 "no value begins with 0xff",
		"80 C0 05 68":                           "ends inside",
		"80 C2 FF FF FF FF 68":                  "ends inside",
		"80 81 FF":                              "UTF-8",
		"80 CC 00 00 00 00 00 00 F0 7F":         "not finite",
		"80 C3 01":                              "no string is at byte 1",
		"80 C3 09":                              "no string is at byte 9",
		"80 E5 03 02 00 01 D0":                  "length or count",
		"80 E2 02 C8":                           "ends inside",
		"80 E2 01 C8 01":                        "length or count",
		"80 E2 09 00":                           "ends inside",
		"80 E9 00 00":                           "no value begins with 0x00",
		"80 F0 CC 00":                           "no value begins with 0xcc",
		"80 F2 F1 D7 01 01 00":                  "other members",
		"80 71 00 02":                           "padding",
		"80 71 01 80 41":                        "padding",
		"80 78 01 1F":                           "more characters",
		"80 75 00":                              "ends inside",
		"80 D3 00":                              "ends inside",
		"80 7E 09":                              "ends inside",
		"80" + strings.Repeat("E1", 300) + "D0": "levels deep",
	} {
		if text, err := Decode(unhex(t, data), limit); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %s, %v, want %q", data, text, err, says)
		}
	}
}

// TestReferencesAreBounded: a string of 60 KB and 30,000 references to it would make 1.8 GB.
func TestReferencesAreBounded(t *testing.T) {
	const size, count = 60_000, 30_000
	data := append(unhex(t, "80 E4 00 00 00 00 C1 60 EA"), strings.Repeat("x", size)...)
	for range count {
		data = append(data, 0xC3, 0x06)
	}
	length := len(data) - 6
	data[2], data[3], data[4] = byte(length), byte(length>>8), byte(length>>16)
	var first, last runtime.MemStats
	runtime.ReadMemStats(&first)
	_, err := Decode(data, limit)
	runtime.ReadMemStats(&last)
	if made := last.TotalAlloc - first.TotalAlloc; !errors.Is(err, ErrTooLong) || made > 16<<20 {
		t.Errorf("%d MB are allocated, %v", made>>20, err)
	}
}

// FuzzDecode: whatever is sent, the result is JSON text of a bounded length, or an error.
func FuzzDecode(f *testing.F) {
	for _, v := range readVectors(f) {
		f.Add(v.data(f))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := Decode(data, limit)
		if err == nil && !json.Valid(text) {
			t.Errorf("%x is %s", data, text)
		}
		if len(text) > limit+6*len(data)+2<<20 || err == nil && len(text) > limit {
			t.Errorf("%x is a text of %d bytes: %v", data, len(text), err)
		}
	})
}
