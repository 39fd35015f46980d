package app

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"halley/function/app/internal/account"
	"halley/function/app/internal/apptest"
)

func TestDirectoryOnInstanceDiskIsWarnedOf(t *testing.T) {
	s, err := loadTestApp(t, apptest.Complete("HALLEY_PUSH_DEAD_LETTERS", "directory:letters"))
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	s.WarnOfDisks("AWS Lambda", jsonLogger(&logged, "info"))
	if got := logged.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "HALLEY_PUSH_DEAD_LETTERS=container") {
		t.Errorf("log %q, want one line about push", got)
	}
}

func TestSettingsOfTheHost(t *testing.T) {
	s, err := loadTestApp(t, apptest.Complete("HALLEY_MIN_LEASES", "2", "HALLEY_MAX_LEASES", "3", "HALLEY_MAX_STUCK", "4", "HALLEY_FUNCTIONS", "push"))
	if err != nil {
		t.Fatal(err)
	}
	f := s.Functions[0]
	if f.MinLeases != 2 || f.MaxLeases != 3 || s.App.MaxStuck != 4 {
		t.Errorf("%d to %d leases, %d stuck", f.MinLeases, f.MaxLeases, s.App.MaxStuck)
	}
	a := &App{settings: s, accounts: account.Clients{}}
	a.groupOf(f, nil)
	f.MaxLeases = 4
	a.groupOf(f, nil)
	want := []int{3, 4}
	var got []int
	for _, g := range a.groups {
		got = append(got, g.options.MaxLeases)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("functions with other bounds share a host (-want +got):\n%s", diff)
	}
}
