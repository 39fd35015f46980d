package writer

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// records are what a writer has told of its writes.
type records struct {
	mu       sync.Mutex
	writes   int
	versions map[string]int // newest version, by id
	failed   int
	last     error
}

func (r *records) wrote(id string, version int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	r.versions[id] = version
}

func (r *records) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed, r.last = r.failed+1, err
}

// bubbleWriter is a writer to an account in the test's bubble.
func bubbleWriter(t *testing.T, rate int) (*Writer, *records) {
	t.Helper()
	account, err := emulator.New(&emulator.Options{Latency: 3 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { account.Close() })
	if err := account.CreateContainer("games", "results", "/player", 1); err != nil {
		t.Fatal(err)
	}
	key, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := cosmos.NewClient(account.Endpoint(), key, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: account}})
	if err != nil {
		t.Fatal(err)
	}
	r := &records{versions: map[string]int{}}
	return &Writer{Containers: []*cosmos.Container{client.Container("games", "results")}, Rate: rate, Prefix: "test", Wrote: r.wrote, Failed: r.fail}, r
}

func TestWriterKeepsItsRate(t *testing.T) {
	for _, rate := range []int{1, 5, 100, 1000} {
		synctest.Test(t, func(t *testing.T) {
			w, told := bubbleWriter(t, rate)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			w.Run(ctx)
			if told.failed != 0 {
				t.Errorf("%d writes failed: %v", told.failed, told.last)
			}
			if want, writes := 5*rate, told.writes; writes < want-rate/10-1 || writes > want+rate/10+1 {
				t.Errorf("rate %d: %d writes in 5 s", rate, writes)
			}
		})
	}
}

// TestWriterTellsOfItsWrites compares its records with the account's documents.
func TestWriterTellsOfItsWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, told := bubbleWriter(t, 200)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		w.Run(ctx)
		ranges, err := w.Containers[0].Ranges(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]int{}
		request := cosmos.FeedRequest{Range: ranges[0]}
		for {
			page, err := w.Containers[0].ReadFeed(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if page.NotModified {
				break
			}
			for _, item := range page.Items {
				var r result
				var version struct{ Version int }
				if err := errors.Join(json.Unmarshal(item.Document, &r.Result), json.Unmarshal(item.Document, &version)); err != nil {
					t.Errorf("not a result: %v", err)
				}
				found[r.ID] = version.Version
			}
			request.Continuation = page.Continuation
		}
		corrected := 0
		for _, version := range found {
			if version > 1 {
				corrected++
			}
		}
		if !maps.Equal(found, told.versions) || corrected == 0 {
			t.Errorf("%d documents, %d were told of, %d corrected", len(found), len(told.versions), corrected)
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

func TestWriterTellsOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, told := bubbleWriter(t, 10)
		w.Containers[0] = w.Containers[0].Client().Container("games", "missing")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		w.Run(ctx)
		if told.writes != 0 || told.failed < 10 || !cosmos.IsNotFound(told.last) {
			t.Errorf("%d writes, %d failures, the last %v", told.writes, told.failed, told.last)
		}
	})
}
