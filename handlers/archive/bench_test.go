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
	changes := make([]trigger.Change, size)
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		for i := range changes {
			changes[i] = triggertest.Upsert(fmt.Sprintf(`{"id":"%d-%d","customer":"c%d","total":%d,"text":%q,"_etag":"%d-%d"}`, n, i, i%7, i, text, n, i), fmt.Sprint("c", i%7))
			changes[i].Time = noon
		}
		b.StartTimer()
		if err := handle(b.Context(), trigger.NewBatch(changes...)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "changes/s")
}
