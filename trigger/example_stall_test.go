package trigger_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"halley/trigger"
)

// A range that makes no progress is reported once, and once more when it is over.
func ExampleEvent_stalled() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200})

	host, err := trigger.New(games.leases, []trigger.Function{{
		FeedSource:  trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()},
		Handler:     func(context.Context, trigger.Batch) error { return errors.New("the sink is down") },
		DeadLetters: trigger.DropDeadLetters,
		RetryPolicy: trigger.RetryPolicy{RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond},
	}}, &trigger.Options{Observers: []func(trigger.Event){func(e trigger.Event) {
		if e.Kind == trigger.EventStalled || e.Kind == trigger.EventRecovered {
			fmt.Println(e.Kind, e.Stall.Kind, e.Stall.Text)
		}
	}}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := host.Drain(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// stalled handler the sink is down
	// recovered handler the sink is down
}
