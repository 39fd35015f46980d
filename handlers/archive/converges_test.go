package archive

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Total    int    `json:"total"`
}

func randomOrder(random *rand.Rand, id, customer string) any {
	return order{id, customer, random.IntN(1000)}
}

// Each change is read back once, whatever happens on the way.
func TestArchiveConverges(t *testing.T) {
	for name, test := range map[string]struct {
		format   Format
		lastOnly bool // the feed may leave out versions that were replaced
		scenario triggertest.Scenario
	}{
		"all versions": {Parquet, false, triggertest.Scenario{Function: trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}}}},
		"written once": {JSONLines, false, triggertest.Scenario{WriteOnce: true}},
		"last version": {Parquet, true, triggertest.Scenario{}},
		"soft delete":  {JSONLines, true, triggertest.Scenario{Function: trigger.Function{SoftDeleteProperty: "gone"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.scenario
			s.PartitionKey, s.Document, s.Seeds = "/customer", randomOrder, handlerstest.ShortOrLong(2, 8) // each file waits for the disk
			s.Open = func(t testing.TB, _ *triggertest.World) triggertest.Sink {
				path := t.TempDir()
				t.Setenv("HALLEY_ARCHIVE_DIRECTORY", path)
				t.Setenv("HALLEY_ARCHIVE_FORMAT", string(test.format))
				return archiveSink(t, Directory(path), test.lastOnly)
			}
			triggertest.Converges(t, s)
		})
	}
}

func TestArchiveInBlobsConverges(t *testing.T) {
	triggertest.Converges(t, triggertest.Scenario{
		PartitionKey: "/customer", Document: randomOrder, Seeds: handlerstest.ShortOrLong(2, 6),
		Function: trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}},
		Open: func(t testing.TB, _ *triggertest.World) triggertest.Sink {
			store, settings := azuriteStore(t)
			setAll(t, settings)
			return archiveSink(t, store, false)
		},
	})
}

func archiveSink(t testing.TB, store Store, lastOnly bool) triggertest.Sink {
	return triggertest.Sink{
		Start: func() (trigger.Handler, func() error) { return handlerstest.Start(t, entry, handlers.Env{}) },
		State: func() any { return history(t, store, lastOnly) },
	}
}

// history returns the archived changes of each document in order, without positions,
// which depend on the ranges.
func history(t testing.TB, store Store, lastOnly bool) []string {
	t.Helper()
	byDocument := map[string][]Record{}
	for _, r := range read(t, store, "archive/") {
		byDocument[r.ID] = append(byDocument[r.ID], r)
	}
	lines := []string{}
	for _, records := range byDocument {
		slices.SortStableFunc(records, Record.Compare)
		if lastOnly {
			records = records[len(records)-1:]
		}
		for n, r := range records {
			lines = append(lines, fmt.Sprintf("%s %d: %s %s %s", r.ID, n, r.Operation, r.PartitionKey, cosmos.Property(r.Document, "total")))
		}
	}
	slices.Sort(lines)
	return lines
}

func gunzip(to io.Writer, body []byte) error {
	zipped, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return err
	}
	_, err = io.Copy(to, zipped)
	return err
}
