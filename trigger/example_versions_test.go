package trigger_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// In all-versions mode every version and every delete is a change. It has the
// previous image if the service has it. The container needs a change feed policy,
// and the feed begins now.
func ExampleVersions() {
	games := openGames()
	defer games.close()
	ctx := context.Background()
	client := games.results.Client()
	err := client.CreateContainer(ctx, "games", cosmos.ContainerDefinition{
		ID: "moves", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/player"}}, Retention: 10 * time.Minute,
	})
	if err != nil {
		log.Fatal(err)
	}
	games.results = client.Container("games", "moves")

	function := trigger.Function{
		FeedSource: trigger.FeedSource{Name: "audit", Container: games.results, ChangeFeedMode: cosmos.ModeAllVersions},
		Handler: trigger.Versions(func(_ context.Context, versions []trigger.Version[result]) error {
			for _, v := range versions {
				switch {
				case v.Current == nil:
					fmt.Println(v.Operation, v.Change.ID())
				case v.Previous == nil:
					fmt.Println(v.Operation, v.Current.Score)
				default:
					fmt.Println(v.Operation, v.Previous.Score, "by", v.Current.Score)
				}
			}
			return nil
		}),
	}
	games.drain(function) // saves the position: now
	games.write(result{"1", "ada", 1200}, result{"1", "ada", 1300})
	if _, err := games.results.Delete(ctx, "1", cosmos.NewPartitionKey("ada"), ""); err != nil {
		log.Fatal(err)
	}
	games.drain(function)
	// Output:
	// create 1200
	// replace 1200 by 1300
	// delete 1
}

// A table that follows a container exactly begins with the documents that exist, and then
// gets every version and delete.
func ExampleFromSnapshot() {
	games := openGames()
	defer games.close()
	ctx := context.Background()
	client := games.results.Client()
	err := client.CreateContainer(ctx, "games", cosmos.ContainerDefinition{
		ID: "moves", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/player"}}, Retention: 10 * time.Minute,
	})
	if err != nil {
		log.Fatal(err)
	}
	games.results = client.Container("games", "moves")
	games.write(result{"1", "ada", 1200}, result{"2", "ada", 900})

	table := map[string]int{}
	function := trigger.Function{
		FeedSource: trigger.FeedSource{Name: "table", Container: games.results, ChangeFeedMode: cosmos.ModeAllVersions, StartFrom: trigger.FromSnapshot()},
		Handler: trigger.Versions(func(_ context.Context, versions []trigger.Version[result]) error {
			for _, v := range versions {
				if v.Current == nil {
					delete(table, v.Change.ID())
				} else {
					table[v.Current.ID] = v.Current.Score
				}
			}
			return nil
		}),
	}
	games.drain(function)
	fmt.Println(table)
	games.write(result{"2", "ada", 1300})
	if _, err := games.results.Delete(ctx, "1", cosmos.NewPartitionKey("ada"), ""); err != nil {
		log.Fatal(err)
	}
	games.drain(function)
	fmt.Println(table)
	// Output:
	// map[1:1200 2:900]
	// map[2:1300]
}
