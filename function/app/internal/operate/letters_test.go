package operate

import (
	"encoding/json"
	"testing"

	"halley/trigger"
)

// TestDocumentThatIsNotJSONIsExported: it is a text in the file, and itself when it is
// read again.
func TestDocumentThatIsNotJSONIsExported(t *testing.T) {
	line, err := json.Marshal(Printable(trigger.DeadLetter{Version: trigger.DeadLetterVersion, Kind: trigger.RecordDead, Function: "orders", Document: json.RawMessage("{broken")}))
	if err != nil {
		t.Fatal(err)
	}
	d, err := parseDeadLetter(line, []string{"orders"})
	if err != nil || string(d.Document) != "{broken" || d.Previous != nil {
		t.Errorf("%+v, error %v", d, err)
	}
}
