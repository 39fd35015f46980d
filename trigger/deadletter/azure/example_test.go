package azure_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"halley/trigger"
	"halley/trigger/deadletter/azure"
)

// A Blob needs only the storage account that a Functions app has.
func ExampleBlob() {
	cred, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		log.Fatal(err)
	}
	blobs, err := container.NewClient("https://games.blob.core.windows.net/dead-letters", cred, nil)
	if err != nil {
		log.Fatal(err)
	}
	letters, err := azure.NewBlob(blobs, nil)
	if err != nil {
		log.Fatal(err)
	}
	_ = trigger.Function{FeedSource: trigger.FeedSource{Name: "leaderboard"}, DeadLetters: letters}
}

// With a Queue, a queue-triggered function repairs dead letters one by one.
func ExampleQueue() {
	connection := os.Getenv("AzureWebJobsStorage")
	blobs, err := container.NewClientFromConnectionString(connection, "dead-letters", nil)
	if err != nil {
		log.Fatal(err)
	}
	messages, err := azqueue.NewQueueClientFromConnectionString(connection, "dead-letters", nil)
	if err != nil {
		log.Fatal(err)
	}
	stored, err := azure.NewBlob(blobs, nil)
	if err != nil {
		log.Fatal(err)
	}
	letters, err := azure.NewQueue(stored, messages, nil)
	if err != nil {
		log.Fatal(err)
	}

	repair := func(ctx context.Context, message []byte) error { // called by the queue trigger
		letter, found, err := letters.Open(ctx, message)
		if err != nil || !found {
			return err
		}
		fmt.Println("repair", letter.Key, letter.Change().LSN)
		return letters.Delete(ctx, letter)
	}
	_ = repair
}
