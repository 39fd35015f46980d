package account_test

import (
	"strings"
	"testing"

	"go.uber.org/zap"

	"halley/function/app/internal/account"
	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosttest"
	"halley/function/app/internal/standin/azurestorage"
	"halley/trigger/deadletter"
)

func TestOpenDeadLetters(t *testing.T) {
	t.Setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
	dir := t.TempDir()
	for value, want := range map[string]func(any) bool{
		"container":        is[*deadletter.Container],
		"container:dead":   is[*deadletter.Container],
		"directory:" + dir: is[*deadletter.Directory],
		"blob:dead":        is[*azurestorage.Blob],
		"queue:dead":       is[*azurestorage.Queue],
		"none":             func(v any) bool { return v == nil },
		"drop":             func(v any) bool { return v != nil },
	} {
		s, err := hosttest.Load(t, apptest.Complete("HALLEY_DEAD_LETTERS", value, "CosmosDB", "emulator"))
		if err != nil {
			t.Fatal(err)
		}
		store, err := account.Clients{}.OpenDeadLetters(s.Functions[0], zap.NewNop())
		if err != nil || !want(store) {
			t.Errorf("%s: store %T, %v", value, store, err)
		}
	}
	s, err := hosttest.Load(t, apptest.Complete("HALLEY_DEAD_LETTERS", "blob:dead", "HALLEY_DEAD_LETTERS_CONNECTION", "Nowhere"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (account.Clients{}).OpenDeadLetters(s.Functions[0], zap.NewNop()); err == nil || !strings.Contains(err.Error(), "HALLEY_DEAD_LETTERS_CONNECTION=Nowhere") {
		t.Errorf("error %v, want one that names the connection", err)
	}
}

func is[T any](v any) bool { _, ok := v.(T); return ok }
