package exactlyonce

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"halley/handlers/archive"
	"halley/tests/long"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// Hosts are killed while they archive changes and have documents age out, with a split and
// crashes of the sink. No document may age that is not archived, and nothing may be archived
// twice after deduplication.
func TestAgeingUnderKills(t *testing.T) {
	long.Only(t, "kills processes for ten seconds; TestNoDocumentAgesUnarchived of package archive has the same in one process")
	t.Parallel()
	drawSeed(t)
	for _, kind := range []archive.Ageing{archive.AgeingTTL, archive.AgeingDelete} {
		t.Run(string(kind), func(t *testing.T) { ageUnderKills(t, kind, *changes) })
		t.Run(string(kind)+" with a snapshot and a gap", func(t *testing.T) { ageAfterGap(t, kind) })
	}
}

func ageUnderKills(t *testing.T, kind archive.Ageing, count int) {
	t.Parallel()
	account, endpoint := serveAccount(t, cosmos.ContainerDefinition{DefaultTTL: &withoutDefault})
	client := connect(t, account, endpoint)
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	sink := newShelf(t)
	source := trigger.FeedSource{Name: "archive", StartFrom: trigger.FromBeginning(), Container: client.Container(database, monitored)}
	f := startHosts(t, endpoint, append(sink.settings(kind), "HALLEY_START_FROM=beginning")...)
	trouble, stopTrouble := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() { f.killAtRandom(trouble, *interval) })
	crashes := 0
	working.Go(func() { crashes = sink.crash(trouble, t, 2**interval) })
	l := newLife(t, source.Container)
	l.write(ctx, count/2, *rate)
	_, err := account.Split(database, monitored, "0")
	must(t, err)
	l.write(ctx, count-count/2, *rate)
	stopTrouble()
	working.Wait()
	awaitCaughtUp(ctx, t, client, source)
	for _, h := range f.hosts {
		h.stop()
	}

	requireAged(t, kind, l.living(), documentsOf(t, source.Container), archivedIn(t, sink.directory))
	requireNoDeadLetters(t, f.hosts[0])
	t.Logf("%d changes, %d documents at the end, %d hosts, %d kills, %d crashes of the sink", count, len(l.living()), hosts, f.kills, crashes)
	if f.kills == 0 || crashes == 0 {
		t.Error("the test did not do its work")
	}
}

// ageAfterGap reads all versions, and misses their retention once.
func ageAfterGap(t *testing.T, kind archive.Ageing) {
	t.Parallel()
	sink := newShelf(t)
	r := snapshotUnderKills(t, snapshotSink{
		function: "archive", settings: sink.settings(kind), ttl: &withoutDefault,
		crash: func(ctx context.Context) int { return sink.crash(ctx, t, *interval) },
		documents: func() map[string]document {
			found := map[string]document{}
			for version := range archivedIn(t, sink.directory) {
				found[version.id] = document{ID: version.id}
			}
			return found
		},
	})
	requireAged(t, kind, r.life.living(), documentsOf(t, r.source.Container), archivedIn(t, sink.directory))
}

// withoutDefault is the default of a container in which documents expire that have a ttl.
var withoutDefault = -1

// shelf is the directory of an archive behind a link, so that it can disappear at once.
type shelf struct{ directory, file, link string }

func newShelf(t *testing.T) *shelf {
	t.Helper()
	base := t.TempDir()
	s := &shelf{filepath.Join(base, "directory"), filepath.Join(base, "file"), filepath.Join(base, "link")}
	must(t, os.Mkdir(s.directory, 0o755))
	must(t, os.WriteFile(s.file, nil, 0o600))
	must(t, os.Symlink(s.directory, s.link))
	return s
}

// settings are those of the archive. None of its documents expires in the run.
func (s *shelf) settings(kind archive.Ageing) []string {
	settings := []string{
		"HALLEY_FUNCTIONS=archive", "HALLEY_ARCHIVE_DIRECTORY=" + s.link, "HALLEY_ARCHIVE_FORMAT=jsonl", "HALLEY_MAX_ITEMS_PER_INVOCATION=50",
		"HALLEY_BATCH_WINDOW=100ms", "HALLEY_ARCHIVE_AGE_PER_SECOND=10000", "HALLEY_ARCHIVE_AGE_OUT=" + string(kind),
	}
	if kind == archive.AgeingTTL {
		settings = append(settings, "HALLEY_ARCHIVE_AGE_AFTER="+(2*retention).String())
	}
	return settings
}

// crash has the directory disappear for a part of each interval, until ctx ends.
func (s *shelf) crash(ctx context.Context, t *testing.T, interval time.Duration) (crashes int) {
	return crashRepeatedly(ctx, interval, func(isDown bool) {
		if isDown {
			s.pointTo(t, s.file)
		} else {
			s.pointTo(t, s.directory)
		}
	})
}

func (s *shelf) pointTo(t *testing.T, target string) {
	next := s.link + ".next"
	if err := os.Symlink(target, next); err != nil {
		t.Error(err)
	}
	if err := os.Rename(next, s.link); err != nil {
		t.Error(err)
	}
}

// agedDocument is a document as the container has it.
type agedDocument struct {
	document
	TTL *int64 `json:"ttl"`
}

func documentsOf(t *testing.T, container *cosmos.Container) map[string]agedDocument {
	t.Helper()
	found := map[string]agedDocument{}
	for page, err := range container.Query(context.Background(), cosmos.Query{Text: "SELECT * FROM c"}) {
		must(t, err)
		for _, item := range page.Items {
			var d agedDocument
			must(t, json.Unmarshal(item, &d))
			found[d.ID] = d
		}
	}
	return found
}

// archivedVersion is a version of a document that clients have written.
type archivedVersion struct {
	id      string
	version int64
}

// archivedIn counts the archived versions, after deduplication.
func archivedIn(t *testing.T, directory string) map[archivedVersion]int {
	t.Helper()
	found := map[archivedVersion]int{}
	for record, err := range archive.Read(context.Background(), archive.Directory(directory), "") {
		must(t, err)
		if len(record.Document) == 0 {
			continue // a delete
		}
		var d document
		must(t, json.Unmarshal(record.Document, &d))
		found[archivedVersion{record.ID, d.Version}]++
	}
	return found
}

// requireAged fails the test unless the last version of each document that clients have left
// is archived once and has aged out, and no version is archived twice.
func requireAged(t *testing.T, kind archive.Ageing, want map[string]document, stored map[string]agedDocument, archived map[archivedVersion]int) {
	t.Helper()
	twice, unarchived, young := 0, 0, 0
	for _, count := range archived {
		if count > 1 {
			twice++
		}
	}
	for id, d := range want {
		if archived[archivedVersion{id, d.Version}] == 0 {
			unarchived++
		}
		found, exists := stored[id]
		hasAged := !exists
		if kind == archive.AgeingTTL {
			hasAged = exists && found.TTL != nil && found.document == d
		}
		if !hasAged {
			young++
		}
	}
	for id := range stored {
		if _, exists := want[id]; !exists {
			t.Errorf("document %s exists, and a client has deleted it", id)
		}
	}
	if twice+unarchived+young > 0 {
		t.Errorf("of %d documents, the last version of %d is not archived, and %d have not aged; %d versions are archived twice", len(want), unarchived, young, twice)
	}
}
