package emulator

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// Java reads all of these from every page of a query (QueryMetrics in
// azure-sdk-for-java), and fails if one is missing.
func TestQueryMetrics(t *testing.T) {
	c, _ := newItems(t, 2, nil)
	header := with(crossHeader, "x-ms-documentdb-populatequerymetrics", "True")
	if a := c.expect("200", "POST", items, ask("SELECT * FROM c"), crossHeader...); a.header.Get("x-ms-documentdb-query-metrics") != "" {
		t.Error("metrics came unasked")
	}
	a := c.expect("200", "POST", items, ask("SELECT * FROM c"), header...)
	if got := metricsOf(t, a); got["retrievedDocumentCount"] != 0 || got["indexUtilizationRatio"] != 0 {
		t.Errorf("of nothing: %v", got)
	}
	for i := range 10 {
		c.expect("201", "POST", items, fmt.Sprintf(`{"id":"%d","pk":"%d"}`, i, i), pk(strconv.Itoa(i))...)
	}
	a = c.expect("200", "POST", items, ask("SELECT VALUE c.id FROM c WHERE c.id < '5'"), header...)
	got := metricsOf(t, a)
	want := map[string]float64{"retrievedDocumentCount": 10, "outputDocumentCount": 5, "outputDocumentSize": 15, "indexUtilizationRatio": 0.5}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s = %v, want %v", name, got[name], value)
		}
	}
	if got["retrievedDocumentSize"] < 200 {
		t.Errorf("10 documents are %v bytes", got["retrievedDocumentSize"])
	}
}

func metricsOf(t *testing.T, a answer) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for pair := range strings.SplitSeq(a.header.Get("x-ms-documentdb-query-metrics"), ";") {
		name, value, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("metric %q: %v", pair, err)
		}
		found[name] = n
	}
	for _, name := range append([]string{"retrievedDocumentCount", "retrievedDocumentSize", "outputDocumentCount", "outputDocumentSize", "indexUtilizationRatio"}, queryTimes...) {
		if _, ok := found[name]; !ok {
			t.Errorf("metric %s is missing", name)
		}
	}
	return found
}
