package hosting_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/hosttest"
	"halley/function/app/internal/settings"
	"halley/handlers"
	"halley/trigger"
	"halley/trigger/emulator"
)

// A handler learns that its function starts from a snapshot, and offers its end. The log tells once of
// one that does not.
func TestHandlerFollowsSnapshots(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	for start, want := range map[string]struct{ offers, removes, warns bool }{
		"snapshot":  {offers: true, removes: true},
		"snapshot ": {warns: true},
		"now":       {},
	} {
		env := account.Env("HALLEY_CHANGE_FEED_MODE", "all-versions", "HALLEY_START_FROM", strings.TrimSpace(start))
		env["HALLEY_FUNCTIONS"] = "sink"
		apptest.CleanEnv(t, env)
		var told bool
		source := hosttest.Program().Source
		source.Handlers = append(source.Handlers, handlers.New("sink", "", func(_ context.Context, env handlers.Env, _ struct{}) (trigger.Handler, func() error, error) {
			if told = env.FromSnapshot; want.offers {
				env.FollowRanges(handlers.RangeCallbacks{SnapshotRead: func(context.Context, trigger.SnapshotEnd) error { return nil }})
			}
			return func(context.Context, trigger.Batch) error { return nil }, nil, nil
		}))
		s, err := settings.Load(source)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		a, err := hosting.Open(t.Context(), s, hosting.Options{Grace: time.Second}, hosting.JSONLogger(&log, "warn"))
		if err != nil {
			t.Fatal(err)
		}
		removes, warnings := a.Opened["sink"].SnapshotRead != nil, strings.Count(log.String(), "leases seek --to snapshot")
		if told != (start != "now") || removes != want.removes || (warnings == 1) != want.warns || warnings > 1 {
			t.Errorf("%q: told %v, removes %v, log %s", start, told, removes, log.String())
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}
