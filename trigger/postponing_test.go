package trigger

import (
	"testing"
	"time"

	"halley/trigger/cosmos"
)

func TestReadAheadHoldsForTheNextOwnerAlone(t *testing.T) {
	const property = `-80 6 1000000 12 "41"`
	for name, test := range map[string]struct {
		property, token string
		epoch           int64
		continuation    string
		want            bool
	}{
		"the next owner":                  {property, "-80", 7, `"41"`, true},
		"the one after it":                {property, "-80", 8, `"41"`, false},
		"the same one":                    {property, "-80", 6, `"41"`, false},
		"another position":                {property, "-80", 7, `"40"`, false},
		"first owner of a child":          {property, "-40", 8, `"41"`, true},
		"second owner of a child":         {property, "-40", 9, `"41"`, false},
		"none":                            {"", "-80", 7, `"41"`, false},
		"not a number":                    {`-80 6 1000000 x "41"`, "-80", 7, `"41"`, false},
		"before the first checkpoint":     {"-80 6 1000000 12 ", "-80", 7, "", true},
		"without the continuation, empty": {"-80 6 1000000 12", "-80", 7, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := parseReadAhead(test.property, test.token, test.epoch, test.continuation)
			if got.IsKnown != test.want || got.IsKnown && (got.Changes != 12 || got.Until.Before(time.Unix(1, 0))) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A delete may have no image of its document: its id and its key are in its letter alone.
func TestStoredDeleteWithoutImagesHasItsIDAndKey(t *testing.T) {
	f := Function{ChangeFeedMode: cosmos.ModeAllVersions}
	got := f.storedChange(DeadLetter{Operation: cosmos.OperationDelete, DocumentID: "doc", Key: `["k"]`, DocumentKey: []byte(`{"player":"k"}`), LSN: 7, Due: time.Now()})
	if got.Operation != cosmos.OperationDelete || got.DocumentID() != "doc" || string(got.Item.PartitionKey) != `{"player":"k"}` || got.Key != `["k"]` || got.LSN != 7 {
		t.Errorf("got %+v", got)
	}
}
