package deadletter

import (
	"strings"
	"testing"

	"halley/trigger"
)

var (
	_ trigger.DeadLetters = (*Container)(nil)
	_ trigger.DeadLetters = (*Directory)(nil)
	_ trigger.DeadLetters = (*Blob)(nil)
	_ trigger.DeadLetters = (*Queue)(nil)
)

// People and other programs read this layout.
func TestJSONLayout(t *testing.T) {
	d := sample("f", "a")
	d.Document, d.DocumentKey = []byte(`{"html":"<&>"}`), []byte(`[ "k"]`)
	d.Operation, d.DocumentID = trigger.Delete, "x"
	b, err := encode(d)
	must(t, err)
	same(t, string(b), `{"id":"a","function":"f","account":"games","database":"db","container":"results","range":"0","epoch":3,"lsn":17,"key":"[\"k\"]",`+
		`"operation":"delete","documentId":"x","written":"2026-03-02T12:00:00Z","error":"cannot <take> it","stack":"goroutine 1 [running]","attempts":10,`+
		`"time":"2026-03-02T12:00:00.123456789Z","document":"{\"html\":\"<&>\"}","documentKey":"[ \"k\"]"}`)
	d.Document, d.Previous, d.DocumentKey = []byte("\xff"), []byte{}, nil
	b, err = encode(d)
	must(t, err)
	if !strings.HasSuffix(string(b), `,"document":{"base64":"/w=="},"previous":""}`) {
		t.Errorf("letter with bytes: %s", b)
	}
}

func TestDecodeRejectsInvalidJSON(t *testing.T) {
	for _, text := range []string{"", "null", "[]", "{}", `{"id":"a","document":{}}`, `{"id":"a","document":[1]}`, `{"id":"a","document":1}`, `{"document":"x"}`, `{"id":"a","document":"x","lsn":"y"}`, `{"id":"a","previous":{"base64":"?"}}`} {
		if d, err := decode([]byte(text)); err == nil {
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
		if got := sourceName(of(text)); got != want+digest(text, "games", "db", "results") {
			t.Errorf("%q is %s, want %s and a digest", text, got, want)
		}
	}
	if digest("ab", "c") == digest("a", "bc") {
		t.Error("parts of a name run together")
	}
}

func TestShortenTruncatesText(t *testing.T) {
	for _, text := range []string{"", strings.Repeat("a", maxTextBytes), strings.Repeat("a", maxTextBytes+1), strings.Repeat("é", maxTextBytes), strings.Repeat("\xff", 2*maxTextBytes)} {
		short := shorten(text)
		if len(short) > maxTextBytes || shorten(short) != short || len(text) <= maxTextBytes && short != text {
			t.Errorf("text of %d bytes has %d after it is cut", len(text), len(short))
		}
	}
}
