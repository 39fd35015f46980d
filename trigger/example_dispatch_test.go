package trigger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"halley/trigger"
)

// A queue spreads ranges over processes: one of them, on a timer, sends a message for
// each range with work, and any of them drains a range for each message.
func ExampleHost_Dispatch() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200}, result{"2", "bob", 900})

	host, err := trigger.New(games.leases, []trigger.Function{{
		FeedSource: trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()},
		Handler: func(_ context.Context, b trigger.Batch) error {
			fmt.Println(len(b.Changes), "changes handled")
			return nil
		},
	}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	tasks, _, err := host.Dispatch(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, task := range tasks {
		message, _ := json.Marshal(task) // a struct of strings always encodes
		fmt.Printf("message %s\n", message)
		if _, err := host.DrainRange(ctx, task.Function, task.Range); err != nil {
			log.Fatal(err)
		}
	}
	tasks, _, err = host.Dispatch(ctx)
	fmt.Println(len(tasks), "messages when the range has caught up,", err)
	// Output:
	// message {"function":"leaderboard","range":"0"}
	// 2 changes handled
	// 0 messages when the range has caught up, <nil>
}
