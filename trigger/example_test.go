package trigger_test

import (
	"context"
	"fmt"
	"log"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// result is a document of the examples.
type result struct {
	ID     string `json:"id"`
	Player string `json:"player"`
	Score  int    `json:"score"`
}

// games is an embedded account with a container of results and one of leases.
// It stands for a database of a real account.
type games struct {
	account         *emulator.Account
	results, leases *cosmos.Container
}

func openGames() games {
	account, err := emulator.New(&emulator.Options{PreviousImages: true})
	if err != nil {
		log.Fatal(err)
	}
	key, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		log.Fatal(err)
	}
	client, err := cosmos.NewClient(account.Endpoint(), key, &cosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: account}, // leave this out for a real account
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := account.CreateContainer("games", "results", "/player", 1); err != nil {
		log.Fatal(err)
	}
	if err := account.CreateContainer("games", "leases", "/id", 1); err != nil {
		log.Fatal(err)
	}
	return games{account, client.Container("games", "results"), client.Container("games", "leases")}
}

func (g games) close() {
	if err := g.account.Close(); err != nil {
		log.Fatal(err)
	}
}

func (g games) write(results ...result) {
	for _, r := range results {
		if _, err := g.results.Upsert(context.Background(), cosmos.NewPartitionKey(r.Player), r); err != nil {
			log.Fatal(err)
		}
	}
}

// drain runs one function until it has caught up.
func (g games) drain(f trigger.Function) trigger.Summary {
	host, err := trigger.New(g.leases, []trigger.Function{f}, nil)
	if err != nil {
		log.Fatal(err)
	}
	summary, err := host.Drain(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	return summary
}

// A host with one function. Drain works until it has caught up; Run works until
// its context ends.
func Example() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200}, result{"2", "bob", 900}, result{"3", "ada", 1300})

	host, err := trigger.New(games.leases, []trigger.Function{{
		FeedSource: trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()},
		Handler: trigger.Documents(func(_ context.Context, results []result) error {
			for _, r := range results {
				fmt.Println(r.Player, r.Score)
			}
			return nil
		}),
	}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	summary, err := host.Drain(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(summary.Changes, "changes")
	// Output:
	// ada 1200
	// bob 900
	// ada 1300
	// 3 changes
}

// A handler of raw changes sees positions and attempts as well.
func ExampleHandler() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200})

	games.drain(trigger.Function{
		FeedSource: trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()},
		Handler: func(_ context.Context, b trigger.Batch) error {
			for _, c := range b.Changes {
				var r result
				if err := c.Decode(&r); err != nil {
					return err
				}
				fmt.Println(c.Operation, r.Player, "in range", b.Range.ID, "attempt", b.Attempt, "epoch known:", b.Epoch > 0)
			}
			return nil
		},
	})
	// Output: upsert ada in range 0 attempt 1 epoch known: true
}

// Documents decodes the changes: the handler gets typed documents.
func ExampleDocuments() {
	games := openGames()
	defer games.close()
	games.write(result{"1", "ada", 1200}, result{"2", "bob", 900})

	best := 0
	games.drain(trigger.Function{
		FeedSource: trigger.FeedSource{Name: "leaderboard", Container: games.results, StartFrom: trigger.FromBeginning()},
		Handler: trigger.Documents(func(_ context.Context, results []result) error {
			for _, r := range results {
				best = max(best, r.Score)
			}
			return nil
		}),
	})
	fmt.Println("best:", best)
	// Output: best: 1200
}
