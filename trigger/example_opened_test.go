package trigger_test

import (
	"context"
	"fmt"
	"time"

	"halley/trigger"
)

// Opened warms a cache before the first delivery of a range. Its context ends when the
// host stops or gives up the range.
func ExampleFunction_opened() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200})

	games.drain(trigger.Function{
		FeedSource: trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()},
		Opened: func(ctx context.Context, r trigger.RangeInfo) {
			select {
			case <-time.After(10 * time.Millisecond): // stands for the load of the cache
				fmt.Println("cache of range", r.Range.ID, "is warm")
			case <-ctx.Done():
			}
		},
		Handler: func(_ context.Context, b trigger.Batch) error {
			fmt.Println(len(b.Changes), "change delivered")
			return nil
		},
		Closed: func(r trigger.RangeInfo, reason trigger.CloseReason, _ error) {
			fmt.Println("range", r.Range.ID, "closed:", reason)
		},
	})
	// Output:
	// cache of range 0 is warm
	// 1 change delivered
	// range 0 closed: caught up
}
