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

// The templates of platforms and a module's path are for binaries of Go.
func TestNewProgramTakesNoFlagsOfGo(t *testing.T) {
	for _, flags := range [][]string{{"--template", "azd"}, {"--module", "example.com/shop"}, {"--halley", "."}} {
		c := NewCommand()
		c.SetArgs(append([]string{"app", t.TempDir(), "--lang", "python"}, flags...))
		c.SilenceUsage, c.SilenceErrors = true, true
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), flags[0]+" is for apps in Go: leave it out; an app in python has a Dockerfile for each platform that can start it") {
			t.Errorf("%v: error is %v", flags, err)
		}
	}
}
