package streamtest

import (
	"fmt"
	"strings"
	"testing"

	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// Bench measures a handler with batches of 100 changes of about 1 KB, of 100 partition
// keys and of one.
func Bench(b *testing.B, handle trigger.Handler) {
	fill := strings.Repeat("x", 900)
	for _, keys := range []int{100, 1} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			handlerstest.Bench(b, handle, 100, func(n int) trigger.Change {
				key := fmt.Sprint("customer", n%keys)
				return triggertest.Upsert(fmt.Sprintf(`{"id":"%d","customer":%q,"fill":%q,"_etag":"%d-%d"}`, n, key, fill, keys, n), key)
			})
		})
	}
}
