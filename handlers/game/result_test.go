package game

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestResultRoundTrip(t *testing.T) {
	tests := []struct {
		name, document string
		want           Result
	}{
		{"plain", `{"id":"1","game":"chess","player":"ada","score":1200}`, Result{"1", "chess", "ada", 1200, 0}},
		{"zero score", `{"id":"1","game":"chess","player":"ada","score":0}`, Result{"1", "chess", "ada", 0, 0}},
		{"negative fraction", `{"id":"1","game":"golf","player":"ada","score":-2.5}`, Result{"1", "golf", "ada", -2.5, 0}},
		{"system properties", `{"id":"1","game":"chess","player":"ada","score":1,"_ts":1700000000,"_etag":"\"x\"","club":{"a":[1]}}`,
			Result{"1", "chess", "ada", 1, 1700000000}},
		{"any script", `{"id":"1","game":"囲碁","player":"Ада <&> \"x\"","score":1}`, Result{"1", "囲碁", `Ада <&> "x"`, 1, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got, again Result
			if err := json.Unmarshal([]byte(tt.document), &got); err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			written, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(written, &again); err != nil || again != got {
				t.Errorf("%s decodes to %+v, %v", written, again, err)
			}
		})
	}
}

func TestWriterLeavesOutTimestamp(t *testing.T) {
	got, err := json.Marshal(Result{ID: "1", Game: "chess", Player: "ada", Score: 3})
	if want := `{"id":"1","game":"chess","player":"ada","score":3}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestBadDocumentsNameDocumentAndField(t *testing.T) {
	long := strings.Repeat("x", MaxName+1)
	tests := []struct{ name, document, want string }{
		{"no id", `{"game":"g","player":"p","score":1}`, `field "id" is missing or empty`},
		{"no game", `{"id":"7","player":"p","score":1}`, `result "7": field "game" is missing or empty`},
		{"empty game", `{"id":"7","game":"","player":"p","score":1}`, `result "7": field "game" is missing or empty`},
		{"no player", `{"id":"7","game":"g","score":1}`, `result "7": field "player" is missing or empty`},
		{"null player", `{"id":"7","game":"g","player":null,"score":1}`, `result "7": field "player" is missing or empty`},
		{"long player", `{"id":"7","game":"g","player":"` + long + `","score":1}`, `result "7": field "player" has 257 bytes, more than 256`},
		{"control character", `{"id":"7","game":"g\u0007","player":"p","score":1}`, `result "7": field "game" holds a control character`},
		{"no score", `{"id":"7","game":"g","player":"p"}`, `result "7": field "score" is missing or null`},
		{"null score", `{"id":"7","game":"g","player":"p","score":null}`, `result "7": field "score" is missing or null`},
		{"text score", `{"id":"7","game":"g","player":"p","score":"NaN"}`, `result "7": field "score" is a string, not a float64 in range`},
		{"endless score", `{"id":"7","game":"g","player":"p","score":1e999}`, `result "7": field "score" is a number 1e999, not a float64 in range`},
		{"score before id", `{"score":{},"game":"g","player":"p","id":"7"}`, `result "7": field "score" is a object, not a float64 in range`},
		{"number for player", `{"id":"7","game":"g","player":5,"score":1}`, `result "7": field "player" is a number, not a string in range`},
		{"fraction for _ts", `{"id":"7","game":"g","player":"p","score":1,"_ts":1.5}`, `result "7": field "_ts" is a number 1.5, not a int64 in range`},
		{"array", `[1]`, `cannot unmarshal array`},
		{"null", `null`, `field "score" is missing or null`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r Result
			err := json.Unmarshal([]byte(tt.document), &r)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
		})
	}
}

func TestInfiniteScoresAreInvalid(t *testing.T) {
	for _, score := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		err := Result{ID: "7", Game: "g", Player: "p", Score: score}.Validate()
		if err == nil || !strings.Contains(err.Error(), `result "7": field "score" is`) {
			t.Errorf("score %v: error is %v", score, err)
		}
	}
}
