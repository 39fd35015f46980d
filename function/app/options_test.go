package app

import (
	"bytes"
	"strings"
	"testing"
)

func TestNoArgumentIsHelp(t *testing.T) {
	var out bytes.Buffer
	command := testApp().rootCommand(nil)
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
	err := testApp().rootCommand([]string{"deploy"}).ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "deploy") {
		t.Errorf("error %v", err)
	}
}

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	command := testApp().rootCommand([]string{"--version"})
	command.SetOut(&out)
	if err := command.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), testApp().Version) {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestRunRefusesSettings: the error of a command names the setting.
func TestRunRefusesSettings(t *testing.T) {
	cleanEnv(t, complete("HALLEY_MODE", "sometimes"))
	err := testApp().rootCommand([]string{"run"}).ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "HALLEY_MODE") {
		t.Errorf("error %v", err)
	}
}
