package record

import (
	"strings"
	"testing"

	"halley/trigger/cosmos"
	"halley/trigger/deadletter/internal/sample"
)

// People and other programs read this layout.
func TestJSONLayout(t *testing.T) {
	d := sample.Letter("f", "a")
	d.Document, d.DocumentKey = []byte(`{"html":"<&>"}`), []byte(`[ "k"]`)
	d.Operation, d.DocumentID = cosmos.OperationDelete, "x"
	b, err := Encode(d)
	sample.Must(t, err)
	sample.Same(t, string(b), `{"version":1,"kind":"dead","id":"a","function":"f","account":"games","database":"db","container":"results","range":"0","epoch":3,"lsn":17,"key":"[\"k\"]",`+
		`"operation":"delete","documentId":"x","written":"2026-03-02T12:00:00Z","error":"cannot <take> it","stack":"goroutine 1 [running]","attempts":10,`+
		`"time":"2026-03-02T12:00:00.123456789Z","order":5,"document":"{\"html\":\"<&>\"}","documentKey":"[ \"k\"]"}`)
	d.Document, d.Previous, d.DocumentKey = []byte("\xff"), []byte{}, nil
	b, err = Encode(d)
	sample.Must(t, err)
	if !strings.HasSuffix(string(b), `,"document":{"base64":"/w=="},"previous":""}`) {
		t.Errorf("letter with bytes: %s", b)
	}
}

func TestDecodeRejectsInvalidJSON(t *testing.T) {
	for _, text := range []string{"", "null", "[]", "{}", `{"id":"a","version":1,"kind":"dead","document":{}}`, `{"id":"a","version":1,"kind":"dead","document":[1]}`,
		`{"id":"a","version":1,"kind":"dead","document":1}`, `{"version":1,"kind":"dead","document":"x"}`, `{"id":"a","version":1,"kind":"dead","lsn":"y"}`,
		`{"id":"a","version":1,"kind":"dead","previous":{"base64":"?"}}`, `{"id":"a","kind":"dead"}`, `{"id":"a","version":1}`, `{"id":"a","version":1,"kind":"other"}`} {
		if d, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s is the letter %+v", text, d)
		}
	}
}

func TestReadableNames(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"leaderboard":            "leaderboard-",
		"Leaderboard":            "leaderboard-",
		"../../etc/passwd":       "etc-passwd-",
		"名前":                     "",
		strings.Repeat("a", 300): strings.Repeat("a", 40) + "-",
	} {
		if got := SourceName(sample.Of(text)); got != want+Digest(text, "games", "db", "results") {
			t.Errorf("%q is %s, want %s and a digest", text, got, want)
		}
	}
	if Digest("ab", "c") == Digest("a", "bc") {
		t.Error("parts of a name run together")
	}
}
