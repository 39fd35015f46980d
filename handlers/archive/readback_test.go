package archive

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	godiff "github.com/google/go-cmp/cmp"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// archivedRow is a change as another reader has it, without its name.
type archivedRow struct {
	ID        string           `json:"id"`
	Key       string           `json:"partition_key"`
	Operation cosmos.Operation `json:"operation"`
	LSN       int64            `json:"lsn"`
	Time      int64            `json:"ts"` // seconds
	Document  *string          `json:"document"`
	Total     *float64         `json:"total"`
	Rank      *int64           `json:"rank"`
	Paid      *bool            `json:"paid"`
	Due       *int64           `json:"due"` // milliseconds
	Name      *string          `json:"name"`
	Day       string           `json:"dt"`
	Hour      string           `json:"hour"`
}

// readArchive is what another reader has found in an archive.
type readArchive struct {
	Stored  int           `json:"stored"` // rows, of which some have the same change
	Changes []archivedRow `json:"changes"`
}

// readBackModes are the functions whose archives are read back.
func readBackModes() map[string]trigger.Function {
	batches := trigger.BatchPolicy{MaxItemsPerInvocation: 20, PageItems: 20}
	return map[string]trigger.Function{
		"latest versions": {SoftDeleteProperty: "gone", BatchPolicy: batches},
		"all versions":    {FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}, BatchPolicy: batches},
	}
}

// Blobs that hosts have written, with a batch that was delivered twice and cut in another
// way, are read back whole by DuckDB and pyarrow, which have not written them.
func TestOtherReadersReadWhole(t *testing.T) {
	interpreter := python(t, "HALLEY_TEST_PYARROW", "duckdb and pyarrow")
	for mode, function := range readBackModes() {
		for _, format := range []Format{Parquet, JSONLines} {
			t.Run(mode+" "+string(format), func(t *testing.T) {
				eachStore(t, func(t *testing.T, store Store, settings map[string]string) {
					setAll(t, settings)
					want := archiveStory(t, function, format)
					var got readArchive
					runReader(t, &got, interpreter, "testdata/readback.py", copyOf(t, store), string(format))
					compareRows(t, want, got)
				})
			})
		}
	}
}

// Spark 3.5 and 4.0 return wrong values, without an error, from nullable text columns with
// another encoding than PLAIN or a dictionary.
func TestSparkReadsWhole(t *testing.T) {
	interpreter := python(t, "HALLEY_TEST_PYSPARK", "pyspark")
	var wanted [][]archivedRow
	arguments := []string{"testdata/readback_spark.py"}
	for _, function := range readBackModes() {
		directory := t.TempDir()
		t.Setenv("HALLEY_ARCHIVE_DIRECTORY", directory)
		wanted = append(wanted, archiveStory(t, function, Parquet))
		arguments = append(arguments, directory)
	}
	var got []readArchive
	runReader(t, &got, interpreter, arguments...) // in one process, as it takes long to start
	for i, want := range wanted {
		compareRows(t, want, got[i])
	}
}

// archiveStory writes changes, and returns those that were delivered, each once. One host
// dies in a call, so that its batches are delivered again, cut in another way.
func archiveStory(t *testing.T, function trigger.Function, format Format) []archivedRow {
	t.Helper()
	t.Setenv("HALLEY_ARCHIVE_FORMAT", string(format))
	t.Setenv("HALLEY_ARCHIVE_COLUMNS", "total:double=/order/total,rank:long=/rank,paid:boolean=/paid,due:timestamp=/due,name:string=/name")
	w := triggertest.NewWorld(t, &triggertest.Options{PartitionKey: "/customer", Ranges: 3, Function: function})
	handle := handlerstest.Under(t, entry, handlers.Env{})
	delivered := map[string]archivedRow{}
	var host *triggertest.Host
	var mu sync.Mutex // ranges are drained at the same time
	calls := 0
	record := func(ctx context.Context, b trigger.Batch) error {
		mu.Lock()
		for _, c := range b.Changes {
			delivered[fmt.Sprint(c.ID(), c.Operation, c.LSN)] = rowOfChange(t, c)
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
	for i := range 200 {
		w.Put(orderWithNulls(i))
		if i%50 == 0 {
			w.Advance(time.Hour)
		}
	}
	w.Put(`{"id":"bare","customer":"c1"}`)
	w.Put(`{"id":"soft","customer":"c2","name":"soft","gone":true}`)
	w.Delete("d3", "c3")
	host.Drain()
	w.Host(record).Drain()
	rows := make([]archivedRow, 0, len(delivered))
	for _, row := range delivered {
		rows = append(rows, row)
	}
	return rows
}

// orderWithNulls returns an order in which each value is missing or null now and then.
func orderWithNulls(i int) string {
	text := fmt.Sprintf(`{"id":"d%d","customer":"c%d"`, i%120, i%8)
	for n, property := range []string{
		fmt.Sprintf(`"order":{"total":%d.5}`, i), fmt.Sprintf(`"rank":%d`, int64(i)<<40), fmt.Sprintf(`"paid":%v`, i%2 == 0),
		fmt.Sprintf(`"due":"2026-12-%02dT12:00:00.%03dZ"`, 1+i%28, i), fmt.Sprintf(`"name":"Ünï '%d' %s"`, i, strings.Repeat("x", i%17)),
	} {
		switch name, _, _ := strings.Cut(property, ":"); (i + n) % 6 {
		case 0:
		case 1:
			text += "," + name + ":null"
		default:
			text += "," + property
		}
	}
	return text + "}"
}

// rowOfChange is the row that a reader must find, made without the code of the archive.
func rowOfChange(t *testing.T, c trigger.Change) archivedRow {
	row := archivedRow{
		ID: c.ID(), Key: string(c.PartitionKey()), Operation: c.Operation, LSN: c.LSN, Time: c.Time.Unix(),
		Day: c.Time.UTC().Format("2006-01-02"), Hour: c.Time.UTC().Format("15"),
	}
	if c.Document == nil {
		return row
	}
	text := string(c.Document)
	var document struct {
		Order struct{ Total *float64 }
		Rank  *int64
		Paid  *bool
		Due   *time.Time
		Name  *string
	}
	if err := json.Unmarshal(c.Document, &document); err != nil {
		t.Error(err)
	}
	row.Document, row.Total, row.Rank, row.Paid, row.Name = &text, document.Order.Total, document.Rank, document.Paid, document.Name
	if document.Due != nil {
		milliseconds := document.Due.UnixMilli()
		row.Due = &milliseconds
	}
	return row
}

// runReader runs a script, which prints JSON.
func runReader(t *testing.T, result any, interpreter string, arguments ...string) {
	t.Helper()
	var output, problems bytes.Buffer
	command := exec.Command(interpreter, arguments...)
	command.Stdout, command.Stderr = &output, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("%v: %s", err, &problems)
	}
	if err := json.Unmarshal(output.Bytes(), result); err != nil {
		t.Fatal(err)
	}
}

func compareRows(t *testing.T, want []archivedRow, got readArchive) {
	t.Helper()
	if got.Stored <= len(want) {
		t.Errorf("%d rows are stored for %d changes: none was delivered twice", got.Stored, len(want))
	}
	order := func(a, b archivedRow) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.LSN, b.LSN)) }
	slices.SortFunc(want, order)
	slices.SortFunc(got.Changes, order)
	if d := godiff.Diff(want, got.Changes); d != "" {
		t.Errorf("changes (-delivered +read back):\n%s", d)
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

// python returns the interpreter that a variable names.
func python(t testing.TB, variable, packages string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s is not set: no Python with %s to read with", variable, packages)
	}
	return path
}
