package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"halley/function/app"
	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/handlers/redis/leaderboard"
	"halley/handlers/redis/redisurl"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// results returns the changes of new results, "ada 100" each, of chess.
func results(lines ...string) (changes []trigger.Change) {
	for i, line := range lines {
		player, score, _ := strings.Cut(line, " ")
		changes = append(changes, triggertest.Upsert(fmt.Sprintf(`{"id":"%s-%d","game":"chess","player":%q,"score":%s,"_ts":%d}`, score, i, player, score, time.Now().Unix()), player))
	}
	return changes
}

// The story of the app: ada leads, bob overtakes her, and her device gets one
// notification, also if his result is delivered twice.
func TestOvertakenPlayerIsNotifiedOnce(t *testing.T) {
	services, err := startDev(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := services.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, value := range services.Settings {
		t.Setenv(name, value)
	}
	w := triggertest.NewWorld(t, nil)
	env := handlerstest.Env(w)
	run := &app.DevRun{Client: w.Client(), Functions: []app.DevFunction{{Database: triggertest.Database}}}
	if err := services.Prepare(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	deliver := func(changes []trigger.Change) {
		t.Helper()
		for _, e := range gameApp().Handlers {
			if v := triggertest.Deliver(t, handlerstest.Under(t, e, env), changes...); len(v.Failed) > 0 {
				t.Fatal(e.Name, v)
			}
		}
	}
	deliver(results("ada 1200"))
	overtaking := results("bob 1300")
	deliver(overtaking)
	deliver(overtaking)
	if got := services.Figures()["notifications received"]; got != 1 {
		t.Errorf("%d notifications", got)
	}
	client, err := redisurl.Client(handlers.URL(services.Settings["HALLEY_LEADERBOARD_REDIS_URL"]))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var board bytes.Buffer
	if err := printTop(t.Context(), &board, leaderboard.New(client, "leaderboard:"), "chess"); err != nil {
		t.Fatal(err)
	}
	if want := " 1. bob        1300\n 2. ada        1200\n"; board.String() != want {
		t.Errorf("board:\n%s", board.String())
	}
}
