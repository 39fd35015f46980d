package remote

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// BenchmarkHandler calls functions that keep the state of each document, and functions on a
// channel that keep nothing.
func BenchmarkHandler(b *testing.B) {
	fill := strings.Repeat("x", 900)
	run := func(b *testing.B, handle trigger.Handler) {
		handlerstest.Bench(b, handle, 100, func(n int) trigger.Change {
			return triggertest.Upsert(fmt.Sprintf(`{"id":"%d","customer":"c%d","fill":%q}`, n%100, n%10, fill), fmt.Sprint("c", n%10))
		})
	}
	for _, l := range languages {
		b.Run(l.name+" over HTTP", func(b *testing.B) {
			run(b, opened(b, urlSetting(l.serve(b, filepath.Join(b.TempDir(), "state")))))
		})
		b.Run(l.name+" as command", func(b *testing.B) {
			run(b, opened(b, l.commandSetting(b, filepath.Join(b.TempDir(), "state"))))
		})
		b.Run(l.name+" on a channel", func(b *testing.B) {
			handle, _ := l.openedFunction(b, "bad:handle_documents")
			run(b, handle)
		})
	}
}
