package emulator

import (
	"context"
	"net/http"
	"strings"
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

// hostedPending are recorded exchanges whose part of the account is not like the service's
// yet: numbers, queries, batches, charges of documents and queries, absent containers. A row
// leaves the list when it is answered alike.
const hostedPending = "041 043 049 053 056 058 064 065 072 075 076 078 080 082 084 086 087 088 095 105 108 109 110 111 120 121 123 126 129 " +
	"143 146 147 150 166 167 170 181 184 187 188 190 192 193 195 197 199 202 206 207 208 209 211 213 216"

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
			Send: func(req *http.Request) (*http.Response, error) {
				if req.Header.Get("X-Ms-Max-Item-Count") != "5000" { // the burst
					time.Sleep(5 * time.Second)
				}
				return a.Do(req)
			},
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
			case strings.Contains(hostedPending, r.ID):
				t.Logf("pending: exchange %s (%s):\n\t%q", r.ID, r.Name, r.Differences)
			case !excepted:
				t.Errorf("exchange %s %s %s (%s):\n\t%q", r.ID, r.Method, r.Path, r.Name, r.Differences)
			}
		}
		t.Logf("%d of %d recorded exchanges are answered alike", same, len(results))
	})
}
