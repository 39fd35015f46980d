package documents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

type order struct {
	ID    string           `json:"id"`
	Total float64          `json:"total"`
	Lines []string         `json:"lines"`
	Ship  *struct{ X int } `json:"ship"`
	Other map[string]any   `json:"other"`
	Raw   json.RawMessage
}

// decodeOneByOne is what Decode must do.
func decodeOneByOne(elements reflect.Value, documents [][]byte) (failed int, err error) {
	for i, d := range documents {
		if err := json.Unmarshal(d, elements.Index(i).Addr().Interface()); err != nil {
			return i, err
		}
	}
	return 0, nil
}

func documentsOf(texts ...string) (documents [][]byte) {
	for _, text := range texts {
		documents = append(documents, []byte(text))
	}
	return documents
}

// Decode has the results and the errors of json.Unmarshal for each document, whatever stands in them.
func TestDecodeIsLikeUnmarshalOfEach(t *testing.T) {
	small := `{"id":"a","total":1.5,"lines":["x","y"],"ship":{"X":3},"other":{"n":[1,null]},"Raw":{"z": 1}}`
	large := `{"id":"` + strings.Repeat("l", groupBytes) + `","lines":[]}`
	many := slicesOf(small, 300)
	deep := strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999)
	for name, documents := range map[string][][]byte{
		"none":                        {},
		"one":                         documentsOf(small),
		"many":                        documentsOf(many...),
		"large ones":                  documentsOf(large, small, large, large, small, small),
		"null":                        documentsOf(small, "null", small),
		"white space":                 documentsOf(" "+small+"\n", "\t"+small),
		"fields that others have not": documentsOf(small, `{}`, `{"id":"b"}`),
		"deep":                        documentsOf(small, `{"Raw":`+deep+`}`),
		"too deep":                    documentsOf(small, `{"Raw":[[`+deep+`]]}`, small),
		"absent":                      {[]byte(small), nil, []byte(small)},
		"damaged":                     documentsOf(append(slicesOf(small, 200), `{"id":`, small)...),
		"wrong type":                  documentsOf(small, `{"id":"a","total":"x","lines":["z"]}`, small),
		"two in one":                  documentsOf(small+","+small, small),
	} {
		for _, of := range []reflect.Type{reflect.TypeFor[[]order](), reflect.TypeFor[[]*order](), reflect.TypeFor[[]any](), reflect.TypeFor[[]json.RawMessage](), reflect.TypeFor[[]map[string]any]()} {
			got, want := reflect.MakeSlice(of, len(documents), len(documents)), reflect.MakeSlice(of, len(documents), len(documents))
			failed, err := Decode(got, func(i int) []byte { return documents[i] })
			wantFailed, wantErr := decodeOneByOne(want, documents)
			if failed != wantFailed || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%s into %s: document %d, %v; want %d, %v", name, of, failed, err, wantFailed, wantErr)
			}
			if wantErr == nil && !reflect.DeepEqual(got.Interface(), want.Interface()) {
				t.Errorf("%s into %s: %v, want %v", name, of, got, want)
			}
		}
	}
}

// What was decoded does not refer to the bytes of the documents.
func TestDecodedDocumentsAreCopies(t *testing.T) {
	text := `{"id":"a","lines":["x"],"Raw":{"z":1}}`
	document := []byte(text)
	var orders [3]order
	if _, err := Decode(reflect.ValueOf(orders[:]), func(int) []byte { return document }); err != nil {
		t.Fatal(err)
	}
	copy(document, bytes.Repeat([]byte("#"), len(document)))
	var want order
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	for _, got := range orders {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("decoded %+v", got)
		}
	}
}

func slicesOf(text string, n int) (texts []string) {
	for range n {
		texts = append(texts, text)
	}
	return texts
}
