package command

import (
	"bytes"
	"strings"
	"testing"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/dev"
	"halley/function/app/internal/hosttest"
)

// testApp has the handlers that Halley comes with, and all stores.
func testApp() *Program { return &Program{Program: dev.Program{Program: *hosttest.Program()}} }

func TestNoArgumentIsHelp(t *testing.T) {
	var out bytes.Buffer
	command := testApp().Root(nil)
	command.SetArgs([]string{})
	command.SetOut(&out)
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dev", "run", "emulator", "check", "status", "deadletters"} {
		if !strings.Contains(out.String(), "\n  "+name) {
			t.Errorf("help does not list %s:\n%s", name, out.String())
		}
	}
}

func TestUnknownCommand(t *testing.T) {
	err := testApp().Root([]string{"deploy"}).ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "deploy") {
		t.Errorf("error %v", err)
	}
}

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	command := testApp().Root([]string{"--version"})
	command.SetOut(&out)
	if err := command.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), testApp().Version) {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestRunRefusesSettings: the error of a command names the setting.
func TestRunRefusesSettings(t *testing.T) {
	apptest.CleanEnv(t, apptest.Complete("HALLEY_MODE", "sometimes"))
	err := testApp().Root([]string{"run"}).ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "HALLEY_MODE") {
		t.Errorf("error %v", err)
	}
}
