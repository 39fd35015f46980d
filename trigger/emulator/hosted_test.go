package emulator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/emulator/hosted"
)

// hostedExceptions are the recorded exchanges that the account does not answer like the
// service, with the reason. There may be ten besides those of stored procedures, triggers
// and user-defined functions, which stay refused.
var hostedExceptions = map[string]string{
	"157": "user-defined functions are refused",
	"158": "user-defined functions are refused",
	"160": "stored procedures are refused",
	"161": "triggers are refused",
}

// TestRecordedAnswersOfAHostedAccount replays recorded answers of a hosted account,
// October 2026.
func TestRecordedAnswersOfAHostedAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := New(&Options{RU: 400})
		if err != nil {
			t.Fatal(err)
		}
		exchanges, err := hosted.Exchanges()
		if err != nil {
			t.Fatal(err)
		}
		player := &hosted.Player{
			Endpoint: "https://halley.emulator", Key: Key, Now: time.Now,
			Send: a.Do,
			Wait: func(_ context.Context, d time.Duration) error { time.Sleep(d); return nil },
		}
		results, err := player.Play(t.Context(), exchanges)
		if err != nil {
			t.Fatal(err)
		}
		same := 0
		for _, r := range results {
			reason, excepted := hostedExceptions[r.ID]
			switch {
			case r.Differences == nil && excepted:
				t.Errorf("exchange %s (%s) is like the service's, but is an exception: %s", r.ID, r.Name, reason)
			case r.Differences == nil:
				same++
			case !excepted:
				t.Errorf("exchange %s %s %s (%s):\n\t%q", r.ID, r.Method, r.Path, r.Name, r.Differences)
			}
		}
		t.Logf("%d of %d recorded exchanges are answered alike", same, len(results))
	})
}
