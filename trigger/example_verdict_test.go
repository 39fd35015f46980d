package trigger_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halley/trigger"
)

// FailedFrom is for a loop that stops at the first change that fails: the changes before
// it in the batch are handled.
func ExampleFailedFrom() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200}, result{"2", "bob", 900}, result{"3", "cid", 700})

	busy := map[string]bool{"bob": true}
	summary := games.drain(trigger.Function{
		Name:      "leaderboard",
		Container: games.results,
		StartFrom: trigger.FromBeginning(),
		RetryMin:  time.Millisecond,
		Handler: func(_ context.Context, b trigger.Batch) error {
			for _, c := range b.Changes {
				var r result
				if err := c.Decode(&r); err != nil {
					return err
				}
				if busy[r.Player] {
					delete(busy, r.Player)
					return trigger.FailedFrom(errors.New("player is busy"), c)
				}
				fmt.Println("attempt", b.Attempt, r.Player)
			}
			return nil
		},
	})
	fmt.Println(summary.Retries, "call failed")
	// Output:
	// attempt 1 ada
	// attempt 2 bob
	// attempt 2 cid
	// 1 call failed
}
