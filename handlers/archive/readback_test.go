package archive

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// archivedRow is a row as another reader has it.
type archivedRow struct {
	ID        string           `json:"id"`
	Key       string           `json:"partition_key"`
	Operation cosmos.Operation `json:"operation"`
	LSN       int64            `json:"lsn"`
	Time      int64            `json:"ts"`
	Document  *string          `json:"document"`
	Total     *float64         `json:"total"`
	Rank      *int64           `json:"rank"`
	Paid      *bool            `json:"paid"`
	Due       *int64           `json:"due"`
	Name      *string          `json:"name"`
	Day       string           `json:"dt"`
	Hour      string           `json:"hour"`
}

// Blobs that hosts have written, with a batch that was delivered twice and cut in another
// way, are read back whole by DuckDB and pyarrow, which have not written them.
func TestOtherReadersReadWhole(t *testing.T) {
	interpreter := python(t)
	for _, format := range []Format{Parquet, JSONLines} {
		t.Run(string(format), func(t *testing.T) {
			eachStore(t, func(t *testing.T, store Store, settings map[string]string) {
				setAll(t, settings)
				t.Setenv("HALLEY_ARCHIVE_FORMAT", string(format))
				t.Setenv("HALLEY_ARCHIVE_COLUMNS", "total:double=/order/total,rank:long=/rank,paid:boolean=/paid,due:timestamp=/due,name:string=/name")
				w := triggertest.NewWorld(t, &triggertest.Options{PartitionKey: "/customer", Ranges: 3, Function: trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}, BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 20, PageItems: 20}}})
				want := archiveStory(t, w)
				directory := copyOf(t, store)
				out, err := exec.Command(interpreter, "testdata/readback.py", directory, string(format)).Output()
				if err != nil {
					t.Fatalf("%v: %s", err, stderrOf(err))
				}
				var got struct {
					Stored  int
					Changes []archivedRow
				}
				if err := json.Unmarshal(out, &got); err != nil {
					t.Fatal(err)
				}
				if got.Stored <= len(want) {
					t.Errorf("%d rows are stored for %d changes: none was delivered twice", got.Stored, len(want))
				}
				if d := cmp.Diff(want, described(got.Changes)); d != "" {
					t.Errorf("changes (-delivered +read back):\n%s", d)
				}
				checkRows(t, got.Changes)
			})
		})
	}
}

// archiveStory writes changes, and returns those that were delivered, each once. One host
// dies in a call, so that its batches are delivered again, and another way of cutting.
func archiveStory(t *testing.T, w *triggertest.World) []string {
	t.Helper()
	handle := handlerstest.Under(t, entry, handlers.Env{})
	delivered := map[string]bool{}
	var host *triggertest.Host
	var mu sync.Mutex // ranges are drained at the same time
	calls := 0
	record := func(ctx context.Context, b trigger.Batch) error {
		mu.Lock()
		for _, c := range b.Changes {
			delivered[describe(c.ID(), c.Operation, c.LSN, c.Time.Unix(), string(c.Document))] = true
		}
		calls++
		dies := calls == 4
		mu.Unlock()
		if dies {
			first := b
			first.Changes = b.Changes[:1+len(b.Changes)/2]
			err := handle(ctx, first)
			host.Kill()
			return err
		}
		return handle(ctx, b)
	}
	host = w.Host(record)
	host.Drain()
	for i := range 150 {
		w.Put(fmt.Sprintf(`{"id":"d%d","customer":"c%d","order":{"total":%d.5},"rank":%d,"paid":%v,"due":%d,"name":"Ünï '%d'"}`, i%40, i%8, i, i, i%2 == 0, 1795348800+i, i))
		if i%50 == 0 {
			w.Advance(time.Hour)
		}
	}
	w.Put(`{"id":"bare","customer":"c1"}`)
	w.Delete("d3", "c3")
	host.Drain()
	w.Host(record).Drain()
	return slices.Sorted(func(yield func(string) bool) {
		for line := range delivered {
			if !yield(line) {
				return
			}
		}
	})
}

func describe(id string, operation cosmos.Operation, lsn, at int64, document string) string {
	return fmt.Sprintf("%s %s lsn %d at %d: %s", id, operation, lsn, at, document)
}

func described(rows []archivedRow) (lines []string) {
	for _, r := range rows {
		document := ""
		if r.Document != nil {
			document = *r.Document
		}
		lines = append(lines, describe(r.ID, r.Operation, r.LSN, r.Time, document))
	}
	slices.Sort(lines)
	return lines
}

// checkRows compares the columns with the documents.
func checkRows(t *testing.T, rows []archivedRow) {
	t.Helper()
	typed, deleted := 0, 0
	for _, r := range rows {
		if at := time.Unix(r.Time, 0).UTC(); r.Day != at.Format("2006-01-02") || r.Hour != at.Format("15") {
			t.Errorf("%s of %v is in partition %s, %s", r.ID, at, r.Day, r.Hour)
		}
		switch {
		case r.Operation == cosmos.OperationDelete:
			deleted++
			if r.Document != nil || r.Key != `["c3"]` {
				t.Errorf("delete %+v", r)
			}
		case r.ID == "bare":
			if r.Total != nil || r.Rank != nil || r.Paid != nil || r.Due != nil || r.Name != nil {
				t.Errorf("columns of a document without their values: %+v", r)
			}
		default:
			var d struct {
				Order struct{ Total float64 }
				Rank  int64
				Paid  bool
				Due   int64
				Name  string
			}
			if err := json.Unmarshal([]byte(*r.Document), &d); err != nil {
				t.Fatal(err)
			}
			if *r.Total != d.Order.Total || *r.Rank != d.Rank || *r.Paid != d.Paid || *r.Due != d.Due || *r.Name != d.Name {
				t.Errorf("columns of %s are %v %v %v %v %v", *r.Document, *r.Total, *r.Rank, *r.Paid, *r.Due, *r.Name)
			}
			typed++
		}
	}
	if typed != 150 || deleted != 1 {
		t.Errorf("%d versions and %d deletes, want 150 and 1", typed, deleted)
	}
}

// copyOf returns a directory with the blobs of a store.
func copyOf(t testing.TB, store Store) string {
	t.Helper()
	if d, ok := store.(Directory); ok {
		return string(d)
	}
	d := Directory(t.TempDir())
	for _, name := range names(t, store) {
		body, err := store.Read(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Create(t.Context(), name, body, ""); err != nil {
			t.Fatal(err)
		}
	}
	return string(d)
}

func stderrOf(err error) string {
	if exit, ok := err.(*exec.ExitError); ok {
		return strings.TrimSpace(string(exit.Stderr))
	}
	return ""
}
