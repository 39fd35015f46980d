package webhook

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// BenchmarkHandler posts documents of 1 KB of 25 partition keys, in batches of 100, to a
// receiver in the same process that reads and accepts them.
func BenchmarkHandler(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer server.Close()
	b.Setenv("HALLEY_WEBHOOK_URL", server.URL)
	b.Setenv("HALLEY_WEBHOOK_SECRETS", secret)
	b.Setenv("HALLEY_WEBHOOK_ALLOW_PRIVATE_ENDPOINT", "true")
	handle := handlerstest.Under(b, entry, handlers.Env{})
	var changes []trigger.Change
	for i := range 100 {
		key := fmt.Sprint("k", i%25)
		changes = append(changes, triggertest.Upsert(fmt.Sprintf(`{"id":"%d","key":%q,"_etag":"\"%d\"","text":%q}`, i, key, i, strings.Repeat("x", 950)), key))
	}
	batch := trigger.NewBatch(changes...)
	for b.Loop() {
		if err := handle(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(changes))/b.Elapsed().Seconds(), "changes/s")
}
