package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// bubbleWriter is a writer to an account in the test's bubble.
func bubbleWriter(t *testing.T, rate int) (*writer, *emulator.Account) {
	t.Helper()
	account, err := emulator.New(&emulator.Options{Latency: 3 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { account.Close() })
	client, err := embeddedClient(account)
	if err != nil {
		t.Fatal(err)
	}
	definition := cosmos.ContainerDefinition{ID: sampleResults, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/player"}}}
	if err := createContainer(t.Context(), client, sampleDatabase, definition); err != nil {
		t.Fatal(err)
	}
	return &writer{containers: []*cosmos.Container{client.Container(sampleDatabase, sampleResults)}, ledger: newLedger(nil), rate: rate, run: "test"}, account
}

func TestWriterKeepsItsRate(t *testing.T) {
	for _, rate := range []int{1, 5, 100, 1000} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := bubbleWriter(t, rate)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			w.Run(ctx)
			writes, _ := w.ledger.totals()
			if failed, err := w.failures(); failed != 0 {
				t.Errorf("%d writes failed: %v", failed, err)
			}
			if want := 5 * rate; writes < want-rate/10-1 || writes > want+rate/10+1 {
				t.Errorf("rate %d: %d writes in 5 s", rate, writes)
			}
		})
	}
}

// TestLedgerMatchesTheAccount compares the ledger with the account's documents.
func TestLedgerMatchesTheAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := bubbleWriter(t, 200)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		w.Run(ctx)
		ranges, err := w.containers[0].Ranges(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]int{}
		request := cosmos.FeedRequest{Range: ranges[0]}
		for {
			page, err := w.containers[0].ReadFeed(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if page.NotModified {
				break
			}
			for _, item := range page.Items {
				var r result
				if err := json.Unmarshal(item.Document, &r.Result); err != nil {
					t.Errorf("not a result: %v", err)
				}
				var v versioned
				if err := json.Unmarshal(item.Document, &v); err != nil {
					t.Fatal(err)
				}
				found[v.ID] = v.Version
			}
			request.Continuation = page.Continuation
		}
		corrected := 0
		for id, e := range w.ledger.documents {
			if found[id] != e.written {
				t.Errorf("document %s has version %d, the ledger says %d", id, found[id], e.written)
			}
			if e.written > 1 {
				corrected++
			}
		}
		if len(found) != len(w.ledger.documents) || corrected == 0 {
			t.Errorf("%d documents, %d in the ledger, %d corrected", len(found), len(w.ledger.documents), corrected)
		}
	})
}

func TestResultsAreValid(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var written []result
	for range 500 {
		r, corrected := next(random, written, "id")
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		if corrected >= 0 && r.Version != written[corrected].Version+1 {
			t.Fatalf("a correction has version %d after %d", r.Version, written[corrected].Version)
		}
		if corrected < 0 {
			written = append(written, r)
		}
	}
}

func TestWriterCountsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, account := bubbleWriter(t, 10)
		key, _ := cosmos.KeyCredential(emulator.Key)
		client, err := cosmos.NewClient(account.Endpoint(), key, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: account}})
		if err != nil {
			t.Fatal(err)
		}
		w.containers[0] = client.Container(sampleDatabase, "missing")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		w.Run(ctx)
		failed, last := w.failures()
		if writes, _ := w.ledger.totals(); writes != 0 || failed < 10 || !cosmos.IsNotFound(last) {
			t.Errorf("%d writes, %d failures, the last %v", writes, failed, last)
		}
	})
}
