package cosmos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// exampleContainer returns the container games/scores of an embedded account.
func exampleContainer() *cosmos.Container {
	account, err := emulator.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	endpoint, credential, err := cosmos.ParseConnectionString(account.ConnectionString())
	if err != nil {
		log.Fatal(err)
	}
	client, err := cosmos.NewClient(endpoint, credential, &cosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: account},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err := client.CreateDatabase(ctx, "games"); err != nil {
		log.Fatal(err)
	}
	err = client.CreateContainer(ctx, "games", cosmos.ContainerDefinition{
		ID:           "scores",
		PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/player"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	return client.Container("games", "scores")
}

type score struct {
	ID     string `json:"id"`
	Player string `json:"player"`
	Points int    `json:"points"`
}

func ExampleNewClient() {
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		log.Fatal(err)
	}
	client, err := cosmos.NewClient("https://games.documents.azure.com:443/", cosmos.TokenCredential(credential), &cosmos.ClientOptions{
		PreferredRegions: []string{"West Europe", "North Europe"},
	})
	if err != nil {
		log.Fatal(err)
	}
	scores := client.Container("games", "scores")
	fmt.Println(scores.Database(), scores.Name())
	// Output: games scores
}

// This example reads the whole feed of a container: every range, page by page.
func ExampleContainer_ReadFeed() {
	ctx, scores := context.Background(), exampleContainer()
	for i := range 3 {
		doc := score{ID: fmt.Sprint("game-", i), Player: "ada", Points: 10 * i}
		if _, err := scores.Create(ctx, cosmos.NewPartitionKey("ada"), doc); err != nil {
			log.Fatal(err)
		}
	}

	ranges, err := scores.Ranges(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range ranges {
		request := cosmos.FeedRequest{Range: r, MaxItems: 100}
		for {
			page, err := scores.ReadFeed(ctx, request)
			if err != nil {
				log.Fatal(err)
			}
			if page.NotModified {
				break
			}
			for _, item := range page.Items {
				var doc score
				if err := json.Unmarshal(item.Document, &doc); err != nil {
					log.Fatal(err)
				}
				fmt.Println(doc.ID, doc.Points)
			}
			request.Continuation = page.Continuation
			page.Release()
		}
	}
	// Output:
	// game-0 0
	// game-1 10
	// game-2 20
}

// Two writers replace the version that they have read. The first one succeeds;
// the second one gets an error.
func ExampleContainer_Replace() {
	ctx, scores := context.Background(), exampleContainer()
	ada := cosmos.NewPartitionKey("ada")
	created, err := scores.Create(ctx, ada, score{"best", "ada", 10})
	if err != nil {
		log.Fatal(err)
	}
	for _, points := range []int{20, 30} {
		_, err := scores.Replace(ctx, "best", ada, score{"best", "ada", points}, created.ETag)
		switch {
		case err == nil:
			fmt.Println(points, "written")
		case cosmos.IsPreconditionFailed(err):
			fmt.Println(points, "rejected: the document has changed since it was read")
		case errors.Is(err, cosmos.ErrOutcomeUnknown):
			fmt.Println(points, "may have been written: read to find out")
		default:
			log.Fatal(err)
		}
	}
	// Output:
	// 20 written
	// 30 rejected: the document has changed since it was read
}

func ExampleContainer_Query() {
	ctx, scores := context.Background(), exampleContainer()
	for i, player := range []string{"ada", "grace", "ada"} {
		doc := score{ID: fmt.Sprint("game-", i), Player: player, Points: 10 * i}
		if _, err := scores.Upsert(ctx, cosmos.NewPartitionKey(player), doc); err != nil {
			log.Fatal(err)
		}
	}

	ada := cosmos.NewPartitionKey("ada")
	best := cosmos.Query{
		Text:         "SELECT * FROM c WHERE c.points > @least",
		Parameters:   []cosmos.Parameter{{Name: "@least", Value: 5}},
		PartitionKey: &ada,
	}
	for page, err := range scores.Query(ctx, best) {
		if err != nil {
			log.Fatal(err)
		}
		for _, item := range page.Items {
			var doc score
			if err := json.Unmarshal(item, &doc); err != nil {
				log.Fatal(err)
			}
			fmt.Println(doc.ID, doc.Points)
		}
	}
	// Output: game-2 20
}
