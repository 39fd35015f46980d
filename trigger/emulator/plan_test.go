package emulator

import (
	"encoding/json"
	"strings"
	"testing"
)

// Clients cannot combine groups of a subquery. One partition key lies in one range, which answers
// the query as it is; the plan of a wrong parameter is refused for a key, too.
func TestPlanOfAKeySendsTheQueryAsItIs(t *testing.T) {
	c := twenty(t, 2)
	nested := ask("SELECT VALUE g.k FROM (SELECT c.pk, COUNT(1) AS k FROM c GROUP BY c.pk) AS g")
	key := pk("1")
	var plan struct {
		QueryInfo   struct{ RewrittenQuery string }
		QueryRanges []struct{ Min, Max string }
	}
	a := c.expect("200", "POST", items, nested, with(planHeader, key...)...)
	if err := json.Unmarshal([]byte(a.body), &plan); err != nil {
		t.Fatal(err)
	}
	if info := plan.QueryInfo; info.RewrittenQuery != "" || len(plan.QueryRanges) != 1 || plan.QueryRanges[0].Min != plan.QueryRanges[0].Max {
		t.Errorf("the plan is %s", a.body)
	}
	if got := ofValues(c.query(nested, key...)); len(got) != 1 {
		t.Errorf("the key has %d groups, want 1", len(got))
	}
	refused := c.expect("400", "POST", items, nested, planHeader...)
	if !strings.Contains(refused.body, "Send a partition key") {
		t.Errorf("without a key: %s", refused.body)
	}
	c.expect("400", "POST", items, ask("SELECT TOP @n * FROM c", "@n", "many"), with(planHeader, key...)...)
}
