package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// eachStore runs a test on a directory and on Azurite. settings are those of the store.
func eachStore(t *testing.T, test func(t *testing.T, store Store, settings map[string]string)) {
	t.Run("directory", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "archive")
		test(t, Directory(path), map[string]string{"HALLEY_ARCHIVE_DIRECTORY": path})
	})
	t.Run("azurite", func(t *testing.T) {
		blobs, settings := azuriteStore(t)
		test(t, blobs, settings)
	})
}

// azuriteStore returns a blob container of its own, which does not exist yet.
func azuriteStore(t testing.TB) (*Blobs, map[string]string) {
	t.Helper()
	text := os.Getenv("HALLEY_TEST_AZURITE")
	if text == "" {
		t.Skip("HALLEY_TEST_AZURITE is not set: no blob service to test with")
	}
	name := "archive-" + uuid.NewString()
	c, err := container.NewClientFromConnectionString(text, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Delete(context.Background(), nil) }) // a test may not have created it
	return NewBlobs(c), map[string]string{"HALLEY_ARCHIVE_CONNECTION_STRING": text, "HALLEY_ARCHIVE_BLOB_CONTAINER": name}
}

func setAll(t testing.TB, settings map[string]string) {
	t.Helper()
	for name, value := range settings {
		t.Setenv(name, value)
	}
}

var entry = handlers.New("archive", "archives changes", Open)

// changeAt is a change of a document at a position.
func changeAt(id string, lsn int64, at time.Time) trigger.Change {
	c := triggertest.Upsert(fmt.Sprintf(`{"id":%q,"k":"key","n":%d,"_etag":"e%d"}`, id, lsn, lsn), "key")
	c.LSN, c.Time = lsn, at
	return c
}

func batchOf(token string, changes ...trigger.Change) trigger.Batch {
	return trigger.Batch{Function: "archive", Range: cosmos.Range{ID: token}, Changes: changes, Attempt: 1, Epoch: 1}
}

func names(t testing.TB, store Store) (all []string) {
	t.Helper()
	for name, err := range store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, name)
	}
	return all
}

func read(t testing.TB, store Store, prefix string) (all []Record) {
	t.Helper()
	for r, err := range Read(t.Context(), store, prefix) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func idsOf(records []Record) (ids []string) {
	for _, r := range records {
		ids = append(ids, r.ID)
	}
	return ids
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestBlobsAreNamedByRangeAndPosition(t *testing.T) {
	eachStore(t, func(t *testing.T, store Store, _ map[string]string) {
		a := New(store, &Options{Prefix: "a/", Format: JSONLines})
		batch := batchOf("3", changeAt("x", 7, noon), changeAt("y", 9, noon.Add(59*time.Minute)), changeAt("z", 12, noon.Add(time.Hour)))
		for range 2 { // the redelivery writes nothing
			if err := a.Handle(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		got := names(t, store)
		want := []string{
			"a/dt=2026-11-22/hour=12/3_00000000000000000007_00000000000000000009_2_",
			"a/dt=2026-11-22/hour=13/3_00000000000000000012_00000000000000000012_1_",
		}
		if len(got) != 2 || !strings.HasPrefix(got[0], want[0]) || !strings.HasPrefix(got[1], want[1]) || !strings.HasSuffix(got[0], ".jsonl.gz") {
			t.Errorf("names %q, want %q", got, want)
		}
		if ids := idsOf(read(t, store, "a/dt=2026-11-22/hour=13/")); !slices.Equal(ids, []string{"z"}) {
			t.Errorf("hour 13 has %q", ids)
		}
	})
}

// A redelivery is cut differently, and has a newer version of a document in place of an
// older one. The blobs have other names, and no change is lost or counted twice.
func TestBatchThatIsCutDifferently(t *testing.T) {
	for _, format := range []Format{Parquet, JSONLines} {
		t.Run(string(format), func(t *testing.T) {
			eachStore(t, func(t *testing.T, store Store, _ map[string]string) {
				a := New(store, &Options{Format: format})
				x, y, z := changeAt("x", 1, noon), changeAt("y", 2, noon), changeAt("z", 3, noon)
				rewritten := changeAt("y", 5, noon.Add(time.Second))
				for _, b := range []trigger.Batch{
					batchOf("0", x, y, z),
					batchOf("0", x, z),         // same first and last position as before
					batchOf("0", x),            // a half
					batchOf("1", z, rewritten), // after a split
				} {
					if err := a.Handle(t.Context(), b); err != nil {
						t.Fatal(err)
					}
				}
				if got := names(t, store); len(got) != 4 {
					t.Errorf("%d blobs, want 4: %q", len(got), got)
				}
				records := read(t, store, "")
				slices.SortFunc(records, Record.Compare)
				if got, want := fmt.Sprint(idsOf(records)), "[x y z y]"; got != want {
					t.Errorf("archived %s, want %s", got, want)
				}
			})
		})
	}
}

func TestRecordsAreReadAsTheyWere(t *testing.T) {
	upsert := changeAt("grün/1", 7, noon)
	deleted := triggertest.Delete("gone", "key", 2)
	deleted.LSN, deleted.Time = 8, noon
	soft := triggertest.SoftDelete(`{"id":"s","gone":true,"_etag":"1"}`, nil)
	soft.LSN, soft.Time = 9, noon
	for _, format := range []Format{Parquet, JSONLines} {
		store := Directory(t.TempDir())
		if err := New(store, &Options{Format: format}).Handle(t.Context(), batchOf("0", upsert, deleted, soft)); err != nil {
			t.Fatal(err)
		}
		got := read(t, store, "")
		for i := range got {
			if len(got[i].Change) != 32 {
				t.Errorf("%s: change is named %q", format, got[i].Change)
			}
			got[i].Change = ""
		}
		want := []Record{
			{ID: "grün/1", PartitionKey: `["key"]`, Operation: cosmos.OperationUpsert, LSN: 7, Time: noon, Document: upsert.Document},
			{ID: "gone", PartitionKey: `["key",2]`, Operation: cosmos.OperationDelete, LSN: 8, Time: noon},
			{ID: "s", PartitionKey: `[null]`, Operation: cosmos.OperationDelete, LSN: 9, Time: noon, Document: soft.Document},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", format, d)
		}
	}
}

func TestIdentityOfChanges(t *testing.T) {
	base := newRecord(changeAt("x", 1, noon))
	again := newRecord(changeAt("x", 1, noon))
	if base.Change != again.Change {
		t.Error("a redelivered change has another name")
	}
	seen := map[string]string{base.Change: "base"}
	deleted, later := triggertest.Delete("x", "key"), triggertest.Delete("x", "key")
	deleted.Time, later.Time, later.LSN = noon, noon, 1
	for name, r := range map[string]Record{
		"another version":  newRecord(changeAt("x", 2, noon)),
		"another document": newRecord(changeAt("y", 1, noon)),
		"another key":      {ID: "x", PartitionKey: `["other"]`, LSN: 1, Document: json.RawMessage(`{"_etag":"e1"}`)},
		"a delete":         newRecord(deleted),
		"a later delete":   newRecord(later),
		"an expiry":        {ID: "x", PartitionKey: `["key"]`, Operation: cosmos.OperationExpire, Time: noon},
	} {
		if other, ok := seen[r.identity()]; ok {
			t.Errorf("%s is named like %s", name, other)
		}
		seen[r.identity()] = name
	}
}

func TestDailyPartitions(t *testing.T) {
	store := Directory(t.TempDir())
	a := New(store, &Options{Partition: Daily})
	if err := a.Handle(t.Context(), batchOf("a/b", changeAt("x", 1, noon), changeAt("y", 2, noon.Add(11*time.Hour)))); err != nil {
		t.Fatal(err)
	}
	if got := names(t, store); len(got) != 1 || !strings.HasPrefix(got[0], "dt=2026-11-22/a-b_") {
		t.Errorf("names %q", got)
	}
}

// A store that fails fails the call; what was written stays.
func TestFailureOfTheStore(t *testing.T) {
	store := &failing{Store: Directory(t.TempDir())}
	a := New(store, nil)
	batch := batchOf("0", changeAt("x", 1, noon), changeAt("y", 2, noon.Add(time.Hour)))
	store.refuse = "hour=13"
	if err := a.Handle(t.Context(), batch); !errors.Is(err, errStore) {
		t.Fatalf("error is %v", err)
	}
	store.refuse = "none"
	if err := a.Handle(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if got := idsOf(read(t, store, "")); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("archived %q", got)
	}
}

var errStore = errors.New("no space")

type failing struct {
	Store
	refuse string
}

func (f *failing) Create(ctx context.Context, name string, body []byte, contentType string) (bool, error) {
	if strings.Contains(name, f.refuse) {
		return false, errStore
	}
	return f.Store.Create(ctx, name, body, contentType)
}

func TestDamagedBlobsAreNamed(t *testing.T) {
	for _, extension := range []string{".parquet", ".jsonl.gz"} {
		store := Directory(t.TempDir())
		if _, err := store.Create(t.Context(), "dt=1/x"+extension, []byte("nonsense"), ""); err != nil {
			t.Fatal(err)
		}
		var failed error
		for _, err := range Read(t.Context(), store, "") {
			failed = err
		}
		if failed == nil || !strings.Contains(failed.Error(), "blob dt=1/x"+extension) {
			t.Errorf("error is %v", failed)
		}
	}
}

func TestColumnsAreTyped(t *testing.T) {
	var columns Columns
	if err := columns.Decode("total:double=/order/total, n:long=/n,name:string=/name,paid:boolean=/paid,due:timestamp=/due"); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(columns); text != "total:double=/order/total,n:long=/n,name:string=/name,paid:boolean=/paid,due:timestamp=/due" {
		t.Errorf("columns are shown as %s", text)
	}
	for document, want := range map[string][]any{
		`{"order":{"total":1.5},"n":7,"name":"a","paid":true,"due":"2026-11-22T13:00:00+01:00"}`: {1.5, int64(7), "a", true, noon},
		`{"order":{"total":2},"n":7.5,"name":1,"paid":"yes","due":1795348800}`:                   {2.0, nil, nil, nil, time.Unix(1795348800, 0).UTC()},
		`{"order":7,"n":"7","name":null,"due":"noon"}`:                                           {nil, nil, nil, nil, nil},
		`{"due":1e300,"n":9007199254740993}`:                                                     {nil, int64(9007199254740993), nil, nil, nil},
		``:                                                                                       {nil, nil, nil, nil, nil},
	} {
		for i, c := range columns {
			if got := c.valueOf(json.RawMessage(document)); got != want[i] {
				t.Errorf("%s of %s is %v, want %v", c.Name, document, got, want[i])
			}
		}
	}
	for text, want := range map[string]string{
		"total":                 `"total" is not a column: write name:type=/path`,
		"total:decimal=/t":      "types are string, long",
		"lsn:long=/n":           `column "lsn" exists`,
		"hour:long=/n":          `column "hour" exists`,
		"a:long=/n,a:string=/m": `column "a" exists`,
		"Total:double=/t":       "is not a column",
		"a:string=b":            "is not a column",
	} {
		if err := new(Columns).Decode(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestLinesHaveColumns(t *testing.T) {
	var columns Columns
	if err := columns.Decode("n:long=/n"); err != nil {
		t.Fatal(err)
	}
	body, err := JSONLines.encode([]Record{newRecord(changeAt("x", 7, noon))}, columns)
	if err != nil {
		t.Fatal(err)
	}
	records, err := decodeLines(body)
	if err != nil || len(records) != 1 || records[0].ID != "x" {
		t.Fatalf("%+v, %v", records, err)
	}
	if line := unzip(t, body); !strings.Contains(line, `"n":7`) || !strings.Contains(line, `"document":{"id":"x"`) {
		t.Errorf("line is %s", line)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	good := Settings{BlobContainer: "archive", AccountURL: "https://a.blob.core.windows.net", Format: Parquet, Partition: Hourly, Prefix: "a/", RequestTimeout: handlers.Interval(time.Minute)}
	for want, spoil := range map[string]func(*Settings){
		"setting HALLEY_ARCHIVE_BLOB_CONTAINER is empty; name the blob container":              func(s *Settings) { s.BlobContainer = "" },
		`setting HALLEY_ARCHIVE_BLOB_CONTAINER is "Blobs"; write 3 to 63`:                      func(s *Settings) { s.BlobContainer = "Blobs" },
		"setting HALLEY_ARCHIVE_DIRECTORY is set next to":                                      func(s *Settings) { s.Directory = "x" },
		"setting HALLEY_ARCHIVE_CONNECTION_STRING or ACCOUNT_URL must be set":                  func(s *Settings) { s.AccountURL = "" },
		"setting HALLEY_ARCHIVE_CONNECTION_STRING is not a connection string":                  func(s *Settings) { s.AccountURL, s.ConnectionString = "", "AccountKey=hunter2" },
		"setting HALLEY_ARCHIVE_ACCOUNT_URL is not a URL such as":                              func(s *Settings) { s.AccountURL = "https://a/?sig=hunter2" },
		`setting HALLEY_ARCHIVE_FORMAT is "csv"; write parquet or jsonl`:                       func(s *Settings) { s.Format = "csv" },
		`setting HALLEY_ARCHIVE_PARTITION is "minute"; write hour or day`:                      func(s *Settings) { s.Partition = "minute" },
		`setting HALLEY_ARCHIVE_PREFIX is "a"; write a path such as archive/orders/`:           func(s *Settings) { s.Prefix = "a" },
		`setting HALLEY_ARCHIVE_PREFIX is "../a/"; write a path such as archive/orders/, with`: func(s *Settings) { s.Prefix = "../a/" },
	} {
		bad := good
		spoil(&bad)
		_, _, err := Open(t.Context(), handlers.Env{Prefix: "HALLEY_ARCHIVE_"}, bad)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
	if _, _, err := Open(t.Context(), handlers.Env{}, good); err != nil {
		t.Error(err)
	}
	if text := fmt.Sprintf("%+v", Settings{ConnectionString: "hunter2"}); strings.Contains(text, "hunter2") {
		t.Errorf("settings print secrets: %s", text)
	}
}

func TestProbes(t *testing.T) {
	eachStore(t, func(t *testing.T, _ Store, settings map[string]string) {
		setAll(t, settings)
		var probes []handlers.Probe
		handlerstest.Under(t, entry, handlers.Env{Probe: func(p handlers.Probe) { probes = append(probes, p) }})
		if err := probes[0].Try(t.Context()); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := probe("HALLEY_ARCHIVE_", Settings{Directory: file}, Directory(file)).Try(t.Context()); err == nil || !strings.Contains(err.Error(), "correct HALLEY_ARCHIVE_DIRECTORY") {
		t.Errorf("a file: %v", err)
	}
	s := Settings{BlobContainer: "c", ConnectionString: "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=aHVudGVyMg==;BlobEndpoint=http://127.0.0.1:1/devstoreaccount1"}
	store, err := s.store()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := probe("HALLEY_ARCHIVE_", s, store).Try(ctx); err == nil || strings.Contains(err.Error(), "aHVudGVyMg") {
		t.Errorf("an account that is down: %v", err)
	}
}

// unzip returns the text of a blob of JSON lines.
func unzip(t testing.TB, body []byte) string {
	t.Helper()
	var text bytes.Buffer
	if err := gunzip(&text, body); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// A blob that no call can have written is not read into memory as a whole.
func TestTooLargeBlobIsRefused(t *testing.T) {
	sent := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		for chunk := make([]byte, 1<<20); sent < 64<<20; sent += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	client, err := container.NewClientWithNoCredential(server.URL+"/archive", nil)
	if err != nil {
		t.Fatal(err)
	}
	blobs := NewBlobs(client)
	blobs.maxBlob = 1 << 20
	_, err = blobs.Read(t.Context(), "x")
	server.Close()
	if err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") || sent >= 64<<20 {
		t.Errorf("%v after %d MB", err, sent>>20)
	}
}
