package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/deadletter"
	"halley/trigger/emulator"
)

// The lease container needs no setup: every function has one.
func ExampleContainer() {
	account, err := emulator.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer account.Close()
	games := connect(account)
	ctx := context.Background()

	letters, err := deadletter.NewContainer(games.Container("games", "leases"), nil)
	if err != nil {
		log.Fatal(err)
	}
	bad := errors.New("no score")
	handler := func(_ context.Context, b trigger.Batch) error {
		if bad != nil {
			return trigger.Skip(bad)
		}
		fmt.Println("handled", len(b.Changes), "for", b.Function)
		return nil
	}
	function := trigger.Function{
		FeedSource: trigger.FeedSource{
			Name:      "leaderboard",
			Container: games.Container("games", "results"),
			StartFrom: trigger.FromBeginning(),
		},
		Handler: handler, DeadLetters: letters,
	}
	host, err := trigger.New(games.Container("games", "leases"), []trigger.Function{function}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := host.Drain(ctx); err != nil {
		log.Fatal(err)
	}
	dead := trigger.DeadLetterQuery{Source: function.DeadLetterSource(), Kind: trigger.RecordDead}
	for d, err := range trigger.AllDeadLetters(ctx, letters, dead) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Key, d.Error)
	}

	bad = nil // the handler is repaired
	done, err := trigger.Replay(ctx, letters, function.DeadLetterSource(), handler, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Handled, "replayed")
	// Output:
	// ["ada"] no score
	// handled 1 for leaderboard
	// 1 replayed
}

// connect creates the containers of the example and one document.
func connect(account *emulator.Account) *cosmos.Client {
	cred, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		log.Fatal(err)
	}
	client, err := cosmos.NewClient(account.Endpoint(), cred, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: account}})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	err = errors.Join(
		account.CreateContainer("games", "results", "/player", 1),
		account.CreateContainer("games", "leases", "/id", 1),
	)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.Container("games", "results").Create(ctx, cosmos.NewPartitionKey("ada"), []byte(`{"id":"1","player":"ada"}`)); err != nil {
		log.Fatal(err)
	}
	return client
}

// A directory stores dead letters on a machine without any service.
func ExampleDirectory() {
	path, err := os.MkdirTemp("", "letters")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(path)
	letters, err := deadletter.NewDirectory(path, &deadletter.DirectoryOptions{
		Report: func(err error) { log.Print(err) }, // damaged parts of files
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	letter := trigger.DeadLetter{
		Version: trigger.DeadLetterVersion, Kind: trigger.RecordDead,
		ID: "1", Function: "leaderboard", Key: `["ada"]`, Document: []byte(`{"player":"ada"}`),
	}
	if err := letters.Put(ctx, letter); err != nil {
		log.Fatal(err)
	}
	holds, err := letters.Holds(ctx, letter.Source(), letter.Key)
	fmt.Println(holds, err)
	// Output: true <nil>
}
