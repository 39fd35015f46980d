package trigger_test

import (
	"context"
	"fmt"
	"log"

	"halley/trigger"
)

// EstimateLag returns how far a function is behind. It may run in a separate process.
func ExampleEstimateLag() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200})

	source := trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()}
	games.drain(trigger.Function{FeedSource: source, Handler: func(context.Context, trigger.Batch) error { return nil }})
	show := func() {
		lags, err := trigger.EstimateLag(context.Background(), games.leases, source)
		if err != nil {
			log.Fatal(err)
		}
		for _, l := range lags {
			fmt.Printf("range %s is %d behind, exact: %t\n", l.Range, l.Changes, l.Exact)
		}
	}
	show()
	games.write(result{"2", "bob", 900}, result{"3", "cid", 700})
	show()
	// Output:
	// range 0 is 0 behind, exact: true
	// range 0 is 2 behind, exact: false
}
