package trigger_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync"
	"time"

	"halley/trigger"
	"halley/trigger/deadletter"
)

// Failed names the changes that failed. Only these are delivered again; the rest of
// the batch is handled.
func ExampleFailed() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200}, result{"2", "bob", 900}, result{"3", "cid", 700})

	busy := map[string]bool{"bob": true}
	games.drain(trigger.Function{
		FeedSource:  trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()},
		RetryPolicy: trigger.RetryPolicy{RetryMin: time.Millisecond},
		Handler: func(_ context.Context, b trigger.Batch) error {
			var failed []trigger.Change
			for _, c := range b.Changes {
				var r result
				if err := c.Decode(&r); err != nil {
					return err
				}
				fmt.Println("attempt", b.Attempt, r.Player)
				if busy[r.Player] {
					failed = append(failed, c)
					delete(busy, r.Player)
				}
			}
			if failed != nil {
				return trigger.Failed(errors.New("player is busy"), failed...)
			}
			return nil
		},
	})
	// Output:
	// attempt 1 ada
	// attempt 1 bob
	// attempt 1 cid
	// attempt 2 bob
}

// A device that is asleep says when it wakes. Its changes wait in the dead letter store
// until then, and the others continue.
func ExampleRetryAfter() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200}, result{"2", "bob", 900}, result{"3", "cid", 700})

	store, err := deadletter.NewContainer(games.leases, nil)
	if err != nil {
		log.Fatal(err)
	}
	leaderboard := trigger.Function{
		FeedSource:  trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()},
		DeadLetters: store,
		Handler: func(_ context.Context, b trigger.Batch) error {
			var asleep []error
			for _, c := range b.Changes {
				var r result
				if err := c.Decode(&r); err != nil {
					return err
				}
				if r.Player == "bob" {
					asleep = append(asleep, trigger.RetryAfter(trigger.Failed(errors.New("device is asleep"), c), time.Hour))
					continue
				}
				fmt.Println("told", r.Player)
			}
			return errors.Join(asleep...)
		},
	}
	games.drain(leaderboard)
	postponed := trigger.DeadLetterQuery{Source: leaderboard.DeadLetterSource(), Kind: trigger.RecordPostponed}
	for d, err := range trigger.AllDeadLetters(context.Background(), store, postponed) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("postponed", d.DocumentID, "with key", d.Key)
	}
	// Output:
	// told ada
	// told cid
	// postponed 2 with key ["bob"]
}

// Skip gives changes up without another attempt. Around Failed it gives up exactly
// the changes named there. Without it the batch is halved until the skipped change is
// alone.
func ExampleSkip() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200}, result{"2", "bob", -1})

	store, err := deadletter.NewContainer(games.leases, nil)
	if err != nil {
		log.Fatal(err)
	}
	summary := games.drain(trigger.Function{
		FeedSource:  trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()},
		DeadLetters: store,
		Handler: func(_ context.Context, b trigger.Batch) error {
			var invalid []trigger.Change
			for _, c := range b.Changes {
				var r result
				if err := c.Decode(&r); err != nil || r.Score < 0 {
					invalid = append(invalid, c)
				}
			}
			if invalid != nil {
				return trigger.Skip(trigger.Failed(errors.New("no score"), invalid...))
			}
			return nil
		},
	})
	fmt.Println(summary.Retries, "call failed,", summary.DeadLetters, "change dead-lettered")
	// Output: 1 call failed, 1 change dead-lettered
}

// Lanes let several calls run for one range; all changes of one partition key are
// in one lane. A poison document is dead-lettered, and the others are handled.
func ExampleFunction_lanes() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200}, result{"2", "bob", -1}, result{"3", "cid", 700}, result{"4", "ada", 1300})

	store, err := deadletter.NewContainer(games.leases, nil)
	if err != nil {
		log.Fatal(err)
	}
	var mu sync.Mutex
	scores := map[string][]string{}
	function := trigger.Function{
		FeedSource:   trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()},
		BatchPolicy:  trigger.BatchPolicy{Lanes: 4},
		GiveUpPolicy: trigger.GiveUpPolicy{MaxAttempts: 3},
		RetryPolicy:  trigger.RetryPolicy{RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond},
		DeadLetters:  store,
		Handler: trigger.Documents(func(_ context.Context, results []result) error {
			for _, r := range results {
				if r.Score < 0 {
					return fmt.Errorf("%s has no score", r.Player)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, r := range results {
				scores[r.Player] = append(scores[r.Player], fmt.Sprint(r.Score))
			}
			return nil
		}),
	}
	games.drain(function)
	fmt.Println("ada:", strings.Join(slices.Compact(scores["ada"]), ", then "))
	fmt.Println("cid:", strings.Join(slices.Compact(scores["cid"]), ", then "))
	dead := trigger.DeadLetterQuery{Source: function.DeadLetterSource(), Kind: trigger.RecordDead}
	for d, err := range trigger.AllDeadLetters(context.Background(), store, dead) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("dead:", d.Key, d.Error)
	}
	// Output:
	// ada: 1200, then 1300
	// cid: 700
	// dead: ["bob"] bob has no score
}

// Replay delivers dead letters to the handler again, once the cause is repaired.
func ExampleReplay() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200}, result{"2", "bob", 900})

	store, err := deadletter.NewContainer(games.leases, nil)
	if err != nil {
		log.Fatal(err)
	}
	isDown := true
	handler := trigger.Documents(func(_ context.Context, results []result) error {
		if isDown {
			return trigger.Skip(errors.New("the sink is down"))
		}
		for _, r := range results {
			fmt.Println(r.Player, r.Score)
		}
		return nil
	})
	function := trigger.Function{
		FeedSource: trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()}, Handler: handler, DeadLetters: store,
	}
	summary := games.drain(function)
	fmt.Println(summary.DeadLetters, "dead letters")

	isDown = false
	done, err := trigger.Replay(context.Background(), store, function.DeadLetterSource(), handler, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Handled, "handled,", done.Failed, "failed")
	// Output:
	// 2 dead letters
	// ada 1200
	// bob 900
	// 2 handled, 0 failed
}
