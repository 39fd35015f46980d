//go:build unix

package remote

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
)

// A process that exits leaves no child behind: it could still work on changes that another
// process gets next.
func TestChildrenEndWithTheirProcess(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	entry := functionEntry(t, FunctionSettings{}, "sh", "-c", `echo '{"ready":2}' >&4; read -r line <&3; sleep 600 >`+pipe+` 2>&1 & exit 3`)
	handle := handlerstest.Under(t, entry, handlers.Env{})
	failed := make(chan error, 1)
	go func() { failed <- handle(t.Context(), trigger.NewBatch(changesOf(1)...)) }()
	reader, err := os.Open(pipe) // returns when the child has it
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error is %v", err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, reader) // until the child has ended
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the child works on")
	}
}
