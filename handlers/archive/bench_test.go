package archive

import (
	"fmt"
	"strings"
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// BenchmarkHandler archives documents of 1 KB in Azurite and in a directory, as Parquet,
// 100 in a call, and in calls of the proposed size.
func BenchmarkHandler(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("directory, batch %d", size), func(b *testing.B) {
			b.Setenv("HALLEY_ARCHIVE_DIRECTORY", b.TempDir())
			archiveBatches(b, size)
		})
		b.Run(fmt.Sprintf("azurite, batch %d", size), func(b *testing.B) {
			_, settings := azuriteStore(b)
			setAll(b, settings)
			archiveBatches(b, size)
		})
	}
}

func archiveBatches(b *testing.B, size int) {
	handle := handlerstest.Under(b, entry, handlers.Env{})
	text := strings.Repeat("lorem ipsum ", 75)
	handlerstest.Bench(b, handle, size, func(n int) trigger.Change {
		c := triggertest.Upsert(fmt.Sprintf(`{"id":"%d","customer":"c%d","total":%d,"text":%q,"_etag":"%d"}`, n, n%7, n, text, n), fmt.Sprint("c", n%7))
		c.Time = noon
		return c
	})
}
