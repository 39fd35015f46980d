package trigger_test

import (
	"context"
	"fmt"
	"sync"

	"halley/trigger"
)

// A sink that writes many changes at once keeps those of each range in memory. Flush writes
// the rest before the range is released, so that nothing is delivered again.
func ExampleFunction_flush() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200}, result{"2", "bob", 900}, result{"3", "cid", 700})

	var mu sync.Mutex // ranges call at the same time
	kept := map[string][]string{}
	write := func(token string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println("written", kept[token])
		delete(kept, token)
	}
	leaderboard := trigger.Function{
		FeedSource:  trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()},
		BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 1},
		Checkpoint:  trigger.Checkpoint{Manual: true},
		Handler: func(_ context.Context, b trigger.Batch) error {
			mu.Lock()
			kept[b.Range.ID] = append(kept[b.Range.ID], b.Changes[0].ID())
			full := len(kept[b.Range.ID]) == 2
			mu.Unlock()
			if full {
				write(b.Range.ID)
				b.Checkpoint()
			}
			return nil
		},
		Flush: func(_ context.Context, r trigger.RangeInfo) error {
			write(r.Range.ID)
			return nil
		},
		Closed: func(r trigger.RangeInfo, reason trigger.CloseReason, _ error) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Println("range", r.Range.ID, "closed:", reason)
			delete(kept, r.Range.ID) // of a range that was lost: its next owner delivers the changes again
		},
	}
	games.drain(leaderboard)
	fmt.Println(games.drain(leaderboard).Changes, "delivered again")
	// Output:
	// written [1 2]
	// written [3]
	// range 0 closed: caught up
	// 0 delivered again
}
