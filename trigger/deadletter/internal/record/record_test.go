package record

import (
	"strings"
	"testing"

	"halley/trigger/cosmos"
	"halley/trigger/deadletter/internal/contract"
)

// People and other programs read this layout.
func TestJSONLayout(t *testing.T) {
	d := contract.Sample("f", "a")
	d.Document, d.DocumentKey = []byte(`{"html":"<&>"}`), []byte(`[ "k"]`)
	d.Operation, d.DocumentID = cosmos.OperationDelete, "x"
	b, err := Encode(d)
	contract.Must(t, err)
	contract.Same(t, string(b), `{"id":"a","function":"f","account":"games","database":"db","container":"results","range":"0","epoch":3,"lsn":17,"key":"[\"k\"]",`+
		`"operation":"delete","documentId":"x","written":"2026-03-02T12:00:00Z","error":"cannot <take> it","stack":"goroutine 1 [running]","attempts":10,`+
		`"time":"2026-03-02T12:00:00.123456789Z","document":"{\"html\":\"<&>\"}","documentKey":"[ \"k\"]"}`)
	d.Document, d.Previous, d.DocumentKey = []byte("\xff"), []byte{}, nil
	b, err = Encode(d)
	contract.Must(t, err)
	if !strings.HasSuffix(string(b), `,"document":{"base64":"/w=="},"previous":""}`) {
		t.Errorf("letter with bytes: %s", b)
	}
}

func TestDecodeRejectsInvalidJSON(t *testing.T) {
	for _, text := range []string{"", "null", "[]", "{}", `{"id":"a","document":{}}`, `{"id":"a","document":[1]}`, `{"id":"a","document":1}`, `{"document":"x"}`, `{"id":"a","document":"x","lsn":"y"}`, `{"id":"a","previous":{"base64":"?"}}`} {
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
		if got := SourceName(contract.Of(text)); got != want+Digest(text, "games", "db", "results") {
			t.Errorf("%q is %s, want %s and a digest", text, got, want)
		}
	}
	if Digest("ab", "c") == Digest("a", "bc") {
		t.Error("parts of a name run together")
	}
}
