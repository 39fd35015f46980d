package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/trigger/redact"
)

// panicOnCANARYname panics, so that its name is in the stack.
func panicOnCANARYname() { panic("no message") }

// A sink and a dead letter store that repeat a secret of the settings: it is in no log record,
// status, lease or letter, also as a name in the stack of a panic. The document stays as it is.
func TestSecretsOfSettingsAreNotRepeated(t *testing.T) {
	const secret = "CANARYpassword"
	redact.Learn(secret)
	redact.Learn("panicOnCANARYname")
	inWorld(t, 1, func(t *testing.T, w *world) {
		logger, log := recordLog(slog.LevelDebug)
		store := &memoryStore{putError: fmt.Errorf("server: AUTH %s", secret)}
		var mu sync.Mutex
		var events []string
		h := w.host("a", func(_ context.Context, b Batch) error {
			if strings.HasPrefix(b.Changes[0].ID(), "panic") {
				panicOnCANARYname()
			}
			return errors.New("ERR AUTH " + secret + " called without any password configured")
		}, withStore(store), func(f *Function, o *Options) {
			f.MaxAttempts, o.Logger, f.StallAfter = 2, logger, time.Second
			o.Observers = append(o.Observers, func(e Event) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, fmt.Sprintf("%+v", e))
			})
		})
		w.write("panic", "panic")
		w.write(secret, "doc-"+secret)
		stop := w.startHost(h)
		time.Sleep(2 * time.Minute)
		_, lag := w.stallsOf("0")
		texts := map[string]string{"status": fmt.Sprintf("%+v", h.Status()), "lease": fmt.Sprintf("%+v", lag)}
		store.mu.Lock()
		store.putError = nil
		store.mu.Unlock()
		time.Sleep(10 * time.Minute)
		stop()
		letters := store.all()
		if len(letters) != 2 {
			t.Fatalf("%d letters, want 2", len(letters))
		}
		for _, d := range letters {
			if d.Error == "" || d.DocumentID == "panic" && d.Stack == "" {
				t.Errorf("the letter has lost its error: %+v", d)
			}
			if d.DocumentID != "panic" && !strings.Contains(string(d.Document), secret) {
				t.Errorf("the document was changed: %s", d.Document)
			}
			texts["letter of "+d.DocumentID] = d.Error + d.Stack
		}
		for _, record := range log.All() {
			if record.Message != "change dead-lettered" { // tells key and id of the document
				texts["log: "+record.Message] += fmt.Sprint(record.ContextMap())
			} else {
				texts["log: dead-lettered"] += fmt.Sprint(record.ContextMap()["error"], record.ContextMap()["stack"])
			}
		}
		texts["events"] = strings.Join(events, "\n")
		for name, text := range texts {
			if strings.Contains(text, "ERR AUTH "+secret) || strings.Contains(text, "AUTH "+secret) || strings.Contains(text, "panicOnCANARYname") {
				t.Errorf("%s repeats a secret: %s", name, text)
			}
		}
	})
}
