package deadletter

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/triggertest"
)

// newAccount returns an embedded account with a database; its container c has
// the partition key paths.
func newAccount(t testing.TB, paths ...string) (*emulator.Account, *cosmos.Container) {
	t.Helper()
	account, err := emulator.New(nil)
	must(t, err)
	t.Cleanup(func() { _ = account.Close() }) // in memory
	cred, err := cosmos.KeyCredential(emulator.Key)
	must(t, err)
	client, err := cosmos.NewClient(account.Endpoint(), cred, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: account}})
	must(t, err)
	must(t, client.CreateDatabase(t.Context(), "db"))
	week := 7 * 24 * 3600
	must(t, client.CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
		ID: "c", PartitionKey: cosmos.PartitionKeyDefinition{Paths: paths}, DefaultTTL: &week, Throughput: 20_000, // two ranges
	}))
	return account, client.Container("db", "c")
}

func newContainer(t testing.TB, c *cosmos.Container, window, partBytes int) *Container {
	t.Helper()
	s, err := NewContainer(c, &ContainerOptions{Window: window})
	must(t, err)
	if partBytes > 0 {
		s.partBytes = partBytes
	}
	return s
}

func TestContainerContract(t *testing.T) {
	for _, keyed := range []struct {
		paths     []string
		partBytes int
		isLong    bool
	}{
		{[]string{"/id"}, 0, false},
		{[]string{"/partitionKey"}, 300_000, true},
		{[]string{"/function"}, 0, true},
		{[]string{"/function", "/id"}, 1 << 20, false},
		{[]string{"/_partitionKey"}, 1 << 19, true},
	} {
		t.Run(strings.Join(keyed.paths, ","), func(t *testing.T) {
			if keyed.isLong && os.Getenv("HALLEY_TEST_LONG") == "" {
				t.Skip("like the others: it runs if HALLEY_TEST_LONG is set")
			}
			_, c := newAccount(t, keyed.paths...)
			triggertest.TestDeadLetters(t, func(t *testing.T) trigger.DeadLetters { return newContainer(t, c, 2, keyed.partBytes) },
				edit(c, "lsn", "seventeen"), edit(c, "lsn", 17), edit(c, "time", "yesterday"), edit(c, "time", ""), edit(c, "time", 5), edit(c, "time", nil),
				edit(c, "time", "2026-03-02T05:00:00-07:00"), edit(c, "range", 0), edit(c, "epoch", []int{}), edit(c, "error", false),
				edit(c, "document", 1), edit(c, "parts", "none"), edit(c, "parts", map[string]int{"count": 1}), edit(c, "letter", "another"),
				edit(c, "record", "other"), edit(c, "record", 5), edit(c, "order", 7), edit(c, "order", "first"), edit(c, "version", 0), newerHalley(edit(c, "version", 2)))
			for _, d := range documents(t, c) {
				if d.Kind == kindPart {
					t.Fatalf("a part is left behind: %+v", d)
				}
			}
		})
	}
}

// edit changes a property of the main document of a dead letter.
func edit(c *cosmos.Container, property string, value any) spoiling {
	return spoiling{Name: fmt.Sprintf("%s %#v", property, value), KeepsKey: true, Do: func(t *testing.T, d trigger.DeadLetter) string {
		id := documentID(d.Source(), d.ID)
		k, err := newContainer(t, c, 0, 0).keys(t.Context())
		must(t, err)
		resp, err := c.Read(t.Context(), id, k.partitionKey(d.Function, id))
		must(t, err)
		var doc map[string]any
		must(t, json.Unmarshal(resp.Body, &doc))
		doc[property] = value
		_, err = c.Replace(t.Context(), id, k.partitionKey(d.Function, id), doc, "")
		must(t, err)
		return id
	}}
}

// newerHalley is damage whose error says to use a newer Halley.
func newerHalley(s spoiling) spoiling {
	return spoiling{Name: s.Name, KeepsKey: s.KeepsKey, Do: func(t *testing.T, d trigger.DeadLetter) string {
		s.Do(t, d)
		return "use a newer Halley"
	}}
}

// stored is the part of a document that tests check.
type stored struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	TTL    int    `json:"ttl"`
	Digest string `json:"digest"`
}

func documents(t testing.TB, c *cosmos.Container) []stored {
	t.Helper()
	var all []stored
	for page, err := range c.Query(t.Context(), cosmos.Query{Text: "SELECT * FROM c"}) {
		must(t, err)
		for _, raw := range page.Items {
			var d stored
			must(t, json.Unmarshal(raw, &d))
			all = append(all, d)
		}
	}
	return all
}

// Dead letters in a lease container are not found by processors that look for
// leases, and never expire. The queries are those of azure-cosmos-dotnet-v3
// (DocumentServiceLeaseContainerCosmos: ids that begin with {prefix}..) and of
// tools that look for ids that begin with a processor name and the account
// host.
func TestDeadLettersAreNotLeases(t *testing.T) {
	_, c := newAccount(t, "/id")
	s := newContainer(t, c, 0, 50)
	big := letter("dead-letter:", "..")
	big.Document = json.RawMessage(strings.Repeat("x", 200))
	for _, d := range []trigger.DeadLetter{letter("f", "a..b_c"), letter("", "a"), big} {
		must(t, s.Put(t.Context(), d))
	}
	all := documents(t, c)
	if len(all) != 3+5 {
		t.Errorf("%d documents, want 3 letters and 5 parts", len(all))
	}
	for _, d := range all {
		if strings.Contains(d.ID, "..") || strings.ContainsAny(d.ID, `_/\?#`) || d.TTL != -1 {
			t.Errorf("document %+v", d)
		}
	}
}

// A retention ends dead letters, with their parts, and neither postponed records nor those that
// wait behind a dead letter of their key.
func TestContainerRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newAccount(t, "/function")
		s, err := NewContainer(c, &ContainerOptions{Retention: 24 * time.Hour})
		must(t, err)
		s.partBytes = 50
		dead, postponed, blocked := letter("f", "dead"), letter("f", "postponed"), letter("f", "blocked")
		dead.Document = json.RawMessage(strings.Repeat("x", 200))
		postponed.Kind, postponed.Due, blocked.Blocked = trigger.RecordPostponed, time.Now(), true
		for _, d := range []trigger.DeadLetter{dead, postponed, blocked} {
			must(t, s.Put(t.Context(), d))
		}
		left := func(kind trigger.RecordKind) (ids []string) {
			page, err := s.Query(t.Context(), trigger.DeadLetterQuery{Source: dead.Source(), Kind: kind})
			must(t, err)
			if len(page.Damaged) > 0 {
				t.Error(page.Damaged)
			}
			for _, d := range page.Records {
				ids = append(ids, d.ID)
			}
			return ids
		}
		for _, step := range []struct {
			wait time.Duration
			dead int
		}{{23 * time.Hour, 2}, {time.Hour + 2*time.Second, 1}, {2 * time.Hour, 1}} {
			time.Sleep(step.wait)
			if got := left(trigger.RecordDead); len(got) != step.dead || got[len(got)-1] != "blocked" && got[0] != "blocked" {
				t.Errorf("dead letters after %v: %q, want %d", step.wait, got, step.dead)
			}
			if got := left(trigger.RecordPostponed); len(got) != 1 {
				t.Errorf("postponed after %v: %q", step.wait, got)
			}
		}
		for _, d := range documents(t, c) {
			if d.Kind == kindPart && d.TTL != never {
				t.Errorf("a part outlives its letter: %+v", d)
			}
		}
	})
}

func TestContainerRejectsInvalidUse(t *testing.T) {
	if _, err := NewContainer(nil, nil); err == nil {
		t.Error("no container is accepted")
	}
	_, c := newAccount(t, "/player")
	if _, err := NewContainer(c, &ContainerOptions{Window: -1}); err == nil {
		t.Error("a negative window is accepted")
	}
	if _, err := NewContainer(c, &ContainerOptions{Retention: 1500 * time.Millisecond}); err == nil || !strings.Contains(err.Error(), "whole seconds") {
		t.Errorf("a retention of 1.5 s: error is %v", err)
	}
	if err := newContainer(t, c, 0, 0).Put(t.Context(), letter("f", "a")); err == nil || !strings.Contains(err.Error(), "partition key /function") {
		t.Errorf("put: %v", err)
	}
	missing := newContainer(t, c.Client().Container("db", "missing"), 0, 0)
	if err := missing.Put(t.Context(), letter("f", "a")); !cosmos.IsNotFound(err) {
		t.Errorf("put into a missing container: %v", err)
	}
	for _, err := range trigger.AllDeadLetters(t.Context(), missing, dead("f")) {
		if !cosmos.IsNotFound(err) {
			t.Errorf("list of a missing container: %v", err)
		}
	}
}

// A document with large text fields still fits.
func TestLongErrorsAreTruncated(t *testing.T) {
	_, c := newAccount(t, "/id")
	s := newContainer(t, c, 0, 0)
	d := letter("f", "a")
	d.Error, d.Stack = strings.Repeat("\x01é", 1<<20), strings.Repeat("é", maxTextBytes)
	d.Document = json.RawMessage(strings.Repeat("d", 1<<20-2))
	must(t, s.Put(t.Context(), d))
	got := list(t, s, "f")[0]
	if len(got.Error) > maxTextBytes || !strings.HasSuffix(got.Error, "(cut)") || len(got.Stack) > maxTextBytes || string(got.Document) != string(d.Document) {
		t.Errorf("error of %d bytes, stack of %d, document of %d", len(got.Error), len(got.Stack), len(got.Document))
	}
	must(t, s.Put(t.Context(), got))
	must(t, s.Delete(t.Context(), got))
	same(t, len(documents(t, c)), 0)
}

// inBubble runs a test under virtual time, with a store of small parts.
func inBubble(t *testing.T, test func(t *testing.T, account *emulator.Account, s *Container)) {
	synctest.Test(t, func(t *testing.T) {
		account, c := newAccount(t, "/id")
		test(t, account, newContainer(t, c, 0, 50))
	})
}

// fourParts returns a dead letter of four parts.
func fourParts() trigger.DeadLetter {
	d := letter("f", "four parts")
	d.Document = json.RawMessage(`"` + strings.Repeat("x", 150) + `"`)
	return d
}

// divided returns the parts that Put writes before the main document.
func (s *Container) divided(d trigger.DeadLetter, k keys) (*partList, []partDocument, error) {
	doc := s.newDocument(d)
	packed, err := pack(doc.Record)
	if err != nil {
		return nil, nil, err
	}
	return s.splitParts(doc, packed, k)
}

// If any one request of a Put or Delete fails, the call succeeds or returns an
// error, and a second call succeeds.
func TestRetryAfterAnySingleFaultSucceeds(t *testing.T) {
	for _, fault := range []emulator.Fault{
		{Drop: emulator.DropBefore}, {Drop: emulator.DropAfter},
		{Status: 429, SubStatus: 3200, RetryAfter: 2 * time.Second}, {Status: 503}, {Status: 500}, {Status: 408}, {Status: 449},
		{Status: 403, SubStatus: 5300, Message: "no"}, {Status: 410, SubStatus: 1008},
	} {
		for nth := 1; nth <= 8; nth++ {
			t.Run(fmt.Sprintf("%s%d at %d", fault.Drop, fault.Status, nth), func(t *testing.T) {
				inBubble(t, func(t *testing.T, account *emulator.Account, s *Container) {
					fault := fault
					fault.Resource, fault.Nth, fault.Count = "docs", nth, 1
					for _, d := range []trigger.DeadLetter{letter("f", "small"), fourParts()} {
						remove := account.Inject(fault)
						firstPut := s.Put(t.Context(), d)
						remove()
						if firstPut == nil && string(list(t, s, "f")[0].Document) != string(d.Document) {
							t.Errorf("%s is not whole though stored", d.ID)
						}
						must(t, s.Put(t.Context(), d))
						same(t, list(t, s, "f"), []trigger.DeadLetter{d})
						remove = account.Inject(fault)
						firstDelete := s.Delete(t.Context(), d)
						remove()
						if letters := list(t, s, "f"); firstDelete == nil && len(letters) != 0 {
							t.Errorf("%s is there though deleted", d.ID)
						}
						must(t, s.Delete(t.Context(), d))
						same(t, len(list(t, s, "f")), 0)
						if fault.Drop != "" && (firstPut != nil || firstDelete != nil) {
							t.Errorf("one lost answer was not settled: %v, %v", firstPut, firstDelete)
						}
						if fault.Drop != "" || fault.Status == 429 {
							same(t, len(documents(t, s.container)), 0)
						}
					}
				})
			})
		}
	}
}

func TestLostAnswersReturnOutcomeUnknown(t *testing.T) {
	inBubble(t, func(t *testing.T, account *emulator.Account, s *Container) {
		remove := account.Inject(emulator.Fault{Resource: "docs", Method: "POST", Drop: emulator.DropBefore})
		if err := s.Put(t.Context(), letter("f", "a")); !errors.Is(err, cosmos.ErrOutcomeUnknown) {
			t.Errorf("put: %v", err)
		}
		remove()
		same(t, len(list(t, s, "f")), 0)
	})
}

// A host is killed between two parts, or between the last part and the main
// document. The next host gives up the same change at another time. Its parts
// must not mix with the old ones, and the old ones are deleted with the dead
// letter when they are old enough.
func TestPutAfterCrashBetweenPartsDoesNotMixThem(t *testing.T) {
	for written := 1; written <= 4; written++ {
		inBubble(t, func(t *testing.T, account *emulator.Account, s *Container) {
			d := fourParts()
			remove := account.Inject(emulator.Fault{Resource: "docs", Method: "POST", Nth: written + 1, Status: 403, SubStatus: 5300})
			if s.Put(t.Context(), d) == nil {
				t.Fatal("put to a dead account")
			}
			remove()
			same(t, len(list(t, s, "f")), 0)
			later := d
			later.Time = d.Time.Add(time.Minute)
			must(t, s.Put(t.Context(), later))
			same(t, list(t, s, "f"), []trigger.DeadLetter{later})
			same(t, len(documents(t, s.container)), written+4+1)
			time.Sleep(2 * time.Hour)
			must(t, s.Delete(t.Context(), later))
			same(t, len(documents(t, s.container)), 0)
		})
	}
}

// Young parts may belong to a Put that is in progress.
func TestYoungOrphanPartsAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T, account *emulator.Account, s *Container) {
		d := fourParts()
		must(t, s.Put(t.Context(), d))
		k, err := s.keys(t.Context())
		must(t, err)
		later := d
		later.Attempts++
		_, parts, err := s.divided(later, k)
		must(t, err)
		for _, p := range parts {
			_, err := s.create(t.Context(), k, p.Function, p.DocumentID, p)
			must(t, err)
		}
		must(t, s.Delete(t.Context(), d))
		same(t, len(documents(t, s.container)), 4)
		must(t, s.Put(t.Context(), later))
		same(t, list(t, s, "f"), []trigger.DeadLetter{later})
	})
}

// If another host puts the same dead letter later, the first one stays, and the
// second Put deletes its own parts.
func TestSecondPutDeletesItsOwnParts(t *testing.T) {
	inBubble(t, func(t *testing.T, account *emulator.Account, s *Container) {
		d := fourParts()
		must(t, s.Put(t.Context(), d))
		later := d
		later.Time = d.Time.Add(time.Minute)
		must(t, s.Put(t.Context(), later))
		must(t, s.Put(t.Context(), d))
		same(t, list(t, s, "f"), []trigger.DeadLetter{d})
		same(t, len(documents(t, s.container)), 5)
	})
}

func TestShortenTruncatesText(t *testing.T) {
	for _, text := range []string{"", strings.Repeat("a", maxTextBytes), strings.Repeat("a", maxTextBytes+1), strings.Repeat("é", maxTextBytes), strings.Repeat("\xff", 2*maxTextBytes)} {
		short := shorten(text)
		if len(short) > maxTextBytes || shorten(short) != short || len(text) <= maxTextBytes && short != text {
			t.Errorf("text of %d bytes has %d after it is cut", len(text), len(short))
		}
	}
}
