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
	text := strings.Repeat("x", 950)
	handlerstest.Bench(b, handle, 100, func(n int) trigger.Change {
		key := fmt.Sprint("k", n%25)
		return triggertest.Upsert(fmt.Sprintf(`{"id":"%d","key":%q,"_etag":"\"%d\"","text":%q}`, n, key, n, text), key)
	})
}
