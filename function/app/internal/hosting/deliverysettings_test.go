package hosting_test

import (
	"bytes"
	"strings"
	"testing"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/hosttest"
)

func TestDirectoryOnInstanceDiskIsWarnedOf(t *testing.T) {
	s, err := hosttest.Load(t, apptest.Complete("HALLEY_PUSH_DEAD_LETTERS", "directory:letters"))
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	s.WarnOfDisks("AWS Lambda", hosting.JSONLogger(&logged, "info"))
	if got := logged.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "HALLEY_PUSH_DEAD_LETTERS=container") {
		t.Errorf("log %q, want one line about push", got)
	}
}

func TestSettingsOfTheHost(t *testing.T) {
	s, err := hosttest.Load(t, apptest.Complete("HALLEY_MIN_LEASES", "2", "HALLEY_MAX_LEASES", "3", "HALLEY_MAX_STUCK", "4", "HALLEY_FUNCTIONS", "push"))
	if err != nil {
		t.Fatal(err)
	}
	f := s.Functions[0]
	if f.MinLeases != 2 || f.MaxLeases != 3 || s.App.MaxStuck != 4 {
		t.Errorf("%d to %d leases, %d stuck", f.MinLeases, f.MaxLeases, s.App.MaxStuck)
	}
}
