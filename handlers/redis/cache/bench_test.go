package cache

import (
	"fmt"
	"strings"
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// BenchmarkHandler delivers batches of 100 products of 1 KB, each
// document for the first time; then batches that have taken effect before.
func BenchmarkHandler(b *testing.B) {
	const items = 100
	handler := handlerstest.Under(b, newRedis(b).entry(func(s *Settings) { s.Properties = nil }), handlers.Env{})
	padding := strings.Repeat("x", 850)
	change := func(n int) trigger.Change {
		c := triggertest.Upsert(fmt.Sprintf(`{"id":"%d","key":"c%d","name":"name%d","price":%d,"text":%q,"_etag":"\"%d\""}`, n, n%1000, n%20, n%100, padding, n), fmt.Sprint("c", n%1000))
		c.LSN = int64(n) + 1
		return c
	}
	b.Run("new", func(b *testing.B) { handlerstest.Bench(b, handler, items, change) })
	b.Run("repeated", func(b *testing.B) {
		handlerstest.Bench(b, handler, items, func(n int) trigger.Change { return change(n % items) })
	})
}
