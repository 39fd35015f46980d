package game

import (
	"encoding/json"
	"strings"
	"testing"

	"halley/trigger"
	"halley/trigger/cosmos"
)

func TestPathsAreSettings(t *testing.T) {
	tests := []struct{ setting, want string }{
		{"", "game=/game, player=/player, score=/score"},
		{" score=/points ,", "game=/game, player=/player, score=/points"},
		{"game=/title,player=/user/name, score=/a~1b", "game=/title, player=/user/name, score=/a~1b"},
		{"game", `! path of the game: "" is not a path: write /name`},
		{"score=points", `! path of the score: "points" is not a path`},
		{"points=/points", `! "points" is none of game, player and score: write game=/title`},
	}
	for _, tt := range tests {
		p := DefaultPaths()
		err := p.Decode(tt.setting)
		if want, fails := strings.CutPrefix(tt.want, "! "); fails {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q: error is %v, want %s", tt.setting, err, want)
			}
		} else if err != nil || p.String() != tt.want {
			t.Errorf("%q is %s, %v, want %s", tt.setting, p, err, tt.want)
		}
	}
}

// Documents of another shape are read by their paths; id and _ts are where Cosmos DB has them.
func TestPathsReadOtherShapes(t *testing.T) {
	p := DefaultPaths()
	if err := p.Decode("game=/title, player=/user/name, score=/points"); err != nil {
		t.Fatal(err)
	}
	changes := []trigger.Change{
		{Document: json.RawMessage(`{"id":"1","title":"chess","user":{"name":"ada \"x\""},"points":1200,"score":"other","_ts":1700000000}`)},
		{Operation: cosmos.OperationDelete, Document: json.RawMessage(`{"id":"2","deleted":true}`)}, // soft
		{Operation: cosmos.OperationDelete},
		{Operation: cosmos.OperationExpire},
		{Operation: cosmos.OperationReplace, Document: json.RawMessage(`{"id":"3","title":"go","user":{"name":"bob"},"points":1}`), LSN: 7},
	}
	results, kept, err := p.Results(trigger.Batch{Changes: changes})
	if err != nil || len(results) != 2 || results[0] != (Result{"1", "chess", `ada "x"`, 1200, 1700000000}) || results[1].Player != "bob" || len(kept) != 2 || kept[1].LSN != 7 {
		t.Errorf("results are %+v of %v, %v", results, kept, err)
	}
	for document, want := range map[string]string{
		`{"id":"4","title":"chess","points":1}`:                      `decode document at lsn 9: result "4": field "player" is missing or empty`,
		`{"id":"4","title":"chess","user":{"name":"ada"},"score":1}`: `decode document at lsn 9: result "4": field "score" is missing or null`,
		`[]`: `decode document at lsn 9: json: cannot unmarshal array`,
		``:   `decode document at lsn 9: unexpected end of JSON input`,
	} {
		_, _, err := p.Results(trigger.Batch{Changes: []trigger.Change{{Document: json.RawMessage(document), LSN: 9}}})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error is %v, want %s", document, err, want)
		}
	}
}
