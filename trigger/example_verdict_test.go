package trigger_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"halley/trigger"
	"halley/trigger/deadletter"
)

// FailedFrom is for a loop that stops at the first change that fails: the changes before
// it in the batch are handled.
func ExampleFailedFrom() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200}, result{"2", "bob", 900}, result{"3", "cid", 700})

	busy := map[string]bool{"bob": true}
	summary := games.drain(trigger.Function{
		FeedSource:  trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()},
		RetryPolicy: trigger.RetryPolicy{RetryMin: time.Millisecond},
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

// A sink that writes many changes at once keeps them in memory, and asks for a checkpoint
// after it has written them. After a crash, the others are delivered again.
func ExampleBatch_Checkpoint() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200}, result{"2", "bob", 900}, result{"3", "cid", 700})

	var kept, written []string
	leaderboard := trigger.Function{
		FeedSource:  trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()},
		BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 1},
		Checkpoint:  trigger.Checkpoint{Manual: true},
		Handler: func(_ context.Context, b trigger.Batch) error {
			for _, c := range b.Changes {
				kept = append(kept, c.ID())
			}
			if len(kept) >= 2 {
				written, kept = append(written, kept...), nil
				b.Checkpoint()
			}
			return nil
		},
	}
	games.drain(leaderboard)
	fmt.Println("written", written, "lost with the process", kept)

	kept = nil
	games.drain(leaderboard)
	fmt.Println("delivered again", kept)
	// Output:
	// written [1 2] lost with the process [3]
	// delivered again [3]
}

// A handler that does not know which document is at fault skips the batch. It gets the
// halves at once, until that document is alone.
func ExampleSkip_batch() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200}, result{"2", "bob", -1}, result{"3", "cid", 700}, result{"4", "dan", 500})

	store, err := deadletter.NewContainer(games.leases, nil)
	if err != nil {
		log.Fatal(err)
	}
	leaderboard := trigger.Function{
		FeedSource:  trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()},
		DeadLetters: store,
		Handler: trigger.Documents(func(_ context.Context, results []result) error {
			for _, r := range results {
				if r.Score < 0 {
					return trigger.Skip(errors.New("no score"))
				}
			}
			return nil
		}),
	}
	summary := games.drain(leaderboard)
	fmt.Println(summary.Changes, "handled,", summary.DeadLetters, "dead-lettered")
	dead := trigger.DeadLetterQuery{Source: leaderboard.DeadLetterSource(), Kind: trigger.RecordDead}
	for d, err := range trigger.AllDeadLetters(context.Background(), store, dead) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.DocumentID, "after attempt", d.Attempts)
	}
	// Output:
	// 3 handled, 1 dead-lettered
	// 2 after attempt 1
}
