package hosting_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/hosttest"
	"halley/trigger/emulator"
)

// The log of a run at info tells its life, as text for people.
func TestRunTellsItsLife(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	s, err := hosttest.Load(t, account.Env())
	if err != nil {
		t.Fatal(err)
	}
	var out apptest.Lines
	a, err := hosting.Open(t.Context(), s, hosting.Options{Grace: time.Second}, hosting.TextLogger(&out, "info"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	account.Write(t, 0, 5)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.RunTelling(ctx, 50*time.Millisecond) }()
	want := []string{
		"function started", `"container": "halley/results"`, `"start": "beginning"`, "lease acquired", "range caught up", "progress", `"behind": 0`,
	}
	counts := regexp.MustCompile(`"changes": (\d+)`)
	counted := func() int { // in all lines
		total := 0
		for _, match := range counts.FindAllStringSubmatch(out.String(), -1) {
			n, _ := strconv.Atoi(match[1])
			total += n
		}
		return total
	}
	deadline := time.Now().Add(apptest.Patience)
	for missing := want; len(missing) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("the log lacks %q:\n%s", missing, out.String())
		}
		missing = nil
		for _, says := range want {
			if !strings.Contains(out.String(), says) {
				missing = append(missing, says)
			}
		}
		if n := counted(); n != 5 {
			missing = append(missing, fmt.Sprintf("5 changes, not %d", n))
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "lease released") || strings.Contains(out.String(), "WARN") || strings.Contains(out.String(), "ERROR") {
		t.Errorf("an orderly life is logged as\n%s", out.String())
	}
}

// Of a function that cannot start nobody knows how far it is behind.
func TestRunTellsUnknownLag(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	s, err := hosttest.Load(t, account.Env("HALLEY_CONTAINER_NAME", "absent"))
	if err != nil {
		t.Fatal(err)
	}
	var out apptest.Lines
	a, err := hosting.Open(t.Context(), s, hosting.Options{Grace: time.Second}, hosting.TextLogger(&out, "info"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.RunTelling(ctx, 50*time.Millisecond) }()
	told := regexp.MustCompile(`progress.*"behind": ("\?"|\d+).*"problem": "cannot start`)
	var found []string
	for deadline := time.Now().Add(apptest.Patience); found == nil && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		found = told.FindStringSubmatch(out.String())
	}
	if found == nil || found[1] != `"?"` {
		t.Errorf("the lag is told as %v:\n%s", found, out.String())
	}
	cancel()
	<-done // it ends with the error of the function, or in order
}
