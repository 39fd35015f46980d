package command

import (
	"io"
	"os"
	"strings"
	"testing"
)

// The settings of a handler with such a name could not be told from those of the app.
func TestNewHandlerWithTheNameOfASettingIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	err := createHandler(t.Context(), "lease", io.Discard)
	if err == nil || !strings.Contains(err.Error(), "HALLEY_LEASE_CONTAINER_NAME is also a setting of the app: rename the handler") {
		t.Errorf("error is %v", err)
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Errorf("%v: written: %v", err, entries)
	}
}
