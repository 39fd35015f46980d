package cosmos_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

func TestQueryOnEmulator(t *testing.T) {
	ctx := t.Context()
	c, _ := newContainer(t, &emulator.Options{Ranges: 2})
	for i := range 10 {
		pk := fmt.Sprint("p", i)
		must[cosmos.Response](t)(c.Create(ctx, cosmos.NewPartitionKey(pk), doc{fmt.Sprint("lease..", i), pk, i}))
	}
	key := cosmos.NewPartitionKey("p3")
	for name, test := range map[string]struct {
		query cosmos.Query
		want  int
	}{
		"all":       {cosmos.Query{Text: "SELECT * FROM c"}, 10},
		"by prefix": {cosmos.Query{Text: "SELECT * FROM c WHERE STARTSWITH(c.id, @p)", Parameters: []cosmos.Parameter{{"@p", "lease.."}}, MaxItems: 3}, 10},
		"one key":   {cosmos.Query{Text: "SELECT * FROM c", PartitionKey: &key}, 1},
		"none":      {cosmos.Query{Text: "SELECT * FROM c WHERE c.id = 'x'"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ids := map[string]bool{}
			for page, err := range c.Query(ctx, test.query) {
				if err != nil {
					t.Fatal(err)
				}
				if test.query.MaxItems > 0 && len(page.Items) > test.query.MaxItems {
					t.Errorf("page of %d items", len(page.Items))
				}
				for _, item := range page.Items {
					var d doc
					if err := json.Unmarshal(item, &d); err != nil {
						t.Fatal(err)
					}
					ids[d.ID] = true
				}
			}
			if len(ids) != test.want {
				t.Errorf("got %v, want %d", ids, test.want)
			}
		})
	}
	for _, err := range c.Query(ctx, cosmos.Query{Text: "SELEKT"}) {
		wantStatus(t, err, 400)
	}
}
