package settings

import (
	"context"
	"strings"
	"testing"
	"time"

	"halley/function/app/internal/apptest"
	"halley/handlers"
	"halley/trigger"
)

// patient has other defaults than Halley's for its function.
type patient struct{}

func (patient) FunctionDefaults() map[string]string {
	return map[string]string{"BATCH_WINDOW": "30s", "MAX_ITEMS_PER_INVOCATION": "10000", "FEED_POLL_DELAY": "9s"}
}

// mistaken has a default of a setting that does not exist.
type mistaken struct{}

func (mistaken) FunctionDefaults() map[string]string { return map[string]string{"WINDOW": "30s"} }

func openNothing[S any](context.Context, handlers.Env, S) (trigger.Handler, func() error, error) {
	return nil, nil, nil
}

func TestHandlerHasDefaultsForItsFunction(t *testing.T) {
	apptest.CleanEnv(t, map[string]string{
		"HALLEY_DATABASE_NAME": "db", "HALLEY_CONTAINER_NAME": "items",
		"HALLEY_MAX_ITEMS_PER_INVOCATION": "500", "HALLEY_SECOND_BATCH_WINDOW": "0s",
	})
	of := Source{Handlers: []handlers.Entry{
		handlers.New("first", "", openNothing[patient]), handlers.New("second", "", openNothing[patient]), handlers.New("third", "", openNothing[struct{}]),
	}}
	s, err := LoadPreset(of, Preset{Settings: map[string]string{"HALLEY_FEED_POLL_DELAY": "1s"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Duration{"first": 30 * time.Second, "second": 0, "third": 0} {
		own := function1(t, s, name)
		f := own.TriggerFunction(nil)
		if f.BatchWindow != want || f.MaxItemsPerInvocation != 500 || f.FeedPollDelay != time.Second {
			t.Errorf("%s: window %v, %d changes, poll delay %v; want %v, 500 and 1s", name, f.BatchWindow, f.MaxItemsPerInvocation, f.FeedPollDelay, want)
		}
	}
	if err := CheckSettings(handlers.New("fourth", "", openNothing[mistaken]), nil); err == nil || !strings.Contains(err.Error(), "its default of HALLEY_FOURTH_WINDOW is of no setting") {
		t.Errorf("error is %v", err)
	}
}
