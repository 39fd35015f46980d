package deadletter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/deadletter/internal/record"
	"halley/trigger/emulator"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// A dead letter with a missing or wrong part does not hide the dead letters
// after it, is not returned as an intact one, and can be deleted.
func TestDamagedPartsAreReported(t *testing.T) {
	for _, damage := range []string{"missing", "no JSON that we know", "other bytes"} {
		inBubble(t, func(t *testing.T, account *emulator.Account, s *Container) {
			d := fourParts()
			must(t, s.Put(t.Context(), d))
			laterLetter := letter("f", "after")
			laterLetter.Time = d.Time.Add(time.Hour)
			must(t, s.Put(t.Context(), laterLetter))
			k, err := s.keys(t.Context())
			must(t, err)
			list, parts, err := s.divided(d, k)
			must(t, err)
			hurt := parts[list.Count/2]
			key := k.partitionKey(hurt.Function, hurt.DocumentID)
			must(t, s.delete(t.Context(), key, hurt.DocumentID))
			switch damage {
			case "other bytes":
				hurt.Gzip, err = compress([]byte("others"))
				must(t, err)
				_, err = s.create(t.Context(), k, hurt.Function, hurt.DocumentID, hurt)
			case "no JSON that we know":
				_, err = s.create(t.Context(), k, hurt.Function, hurt.DocumentID, map[string]string{"id": hurt.DocumentID, "gzip": "?"})
			}
			must(t, err)
			intact, damaged := survey(t, s)
			if fmt.Sprint(intact) != "[after]" || damaged != 1 {
				t.Errorf("%s: dead letters %v, %d damaged", damage, intact, damaged)
			}
			must(t, s.Delete(t.Context(), d))
			if intact, damaged := survey(t, s); len(intact) != 1 || damaged != 0 {
				t.Errorf("%s, deleted: dead letters %v, %d damaged", damage, intact, damaged)
			}
		})
	}
}

// A query that filters by a property reports each document whose property cannot be compared:
// it may be one that the query selects.
func TestDamagedPropertiesAreNotAbsent(t *testing.T) {
	_, c := newAccount(t, "/id")
	s := newContainer(t, c, 0, 0)
	for property, filter := range map[string]func(q *trigger.DeadLetterQuery){
		"record": func(q *trigger.DeadLetterQuery) { q.Kind = trigger.RecordPostponed },
		"letter": func(q *trigger.DeadLetterQuery) { q.ID = "a" },
		"range":  func(q *trigger.DeadLetterQuery) { q.Range = "0" },
		"key":    func(q *trigger.DeadLetterQuery) { q.Key = `["k"]` },
		"error":  func(q *trigger.DeadLetterQuery) { q.ErrorContains = "cannot" },
		"time":   func(q *trigger.DeadLetterQuery) { q.After, q.Before = monday, monday.Add(1) },
	} {
		d := letter(property, "a")
		must(t, s.Put(t.Context(), d))
		edit(c, property, 5).Do(t, d)
		q := dead(property)
		filter(&q)
		page, err := s.Query(t.Context(), q)
		must(t, err)
		if len(page.Records) != 0 || len(page.Damaged) != 1 {
			t.Errorf("filter by a damaged %s: %v, %v", property, ids(page.Records), page.Damaged)
		}
	}
}

// A document that was created by hand is reported as damage.
func TestForeignDocumentsAreReported(t *testing.T) {
	inBubble(t, func(t *testing.T, account *emulator.Account, s *Container) {
		must(t, s.Put(t.Context(), letter("f", "a")))
		_, err := s.container.Create(t.Context(), cosmos.NewPartitionKey("mine"), map[string]any{
			"id": "mine", "kind": kindDeadLetter, "function": "f", "account": "games", "database": "db", "container": "results", "time": monday.Format(record.TimeLayout), "lsn": "1", "range": "0",
		})
		must(t, err)
		if intact, damaged := survey(t, s); len(intact) != 1 || damaged != 1 {
			t.Errorf("dead letters %v, %d damaged", intact, damaged)
		}
	})
}

// The answer to a create is lost, or is a conflict although the document does
// not exist, and an outdated read does not show it. Put must not report success
// if nothing is stored, and must not delete the parts of a stored dead letter.
func TestPutFailsIfConflictAndReadDisagree(t *testing.T) {
	for _, conflict := range []emulator.Fault{{Drop: emulator.DropAfter}, {Status: http.StatusConflict}} {
		for posts, d := range map[int]trigger.DeadLetter{1: letter("f", "small"), 5: fourParts()} {
			inBubble(t, func(t *testing.T, account *emulator.Account, s *Container) {
				conflict.Method, conflict.Path, conflict.Nth, conflict.Count = http.MethodPost, "colls/c/docs$", posts, 1
				account.Inject(conflict)
				account.Inject(emulator.Fault{Method: http.MethodGet, Path: "colls/c/docs/dead-letter:", Count: 1, Status: http.StatusNotFound})
				if s.Put(t.Context(), d) == nil {
					t.Errorf("%s: a letter that nothing shows is stored", d.ID)
				}
				must(t, s.Put(t.Context(), d))
				same(t, list(t, s, "f"), []trigger.DeadLetter{d})
			})
		}
	}
}

// behind is an account whose reads of a document may return an earlier state.
type behind struct {
	*emulator.Account
	document string
	earlier  []byte // of the document, while reads are behind
}

func (b *behind) Do(req *http.Request) (*http.Response, error) {
	resp, err := b.Account.Do(req)
	if err == nil && b.earlier != nil && req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, b.document) {
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(b.earlier)), int64(len(b.earlier))
		resp.Header.Set("Content-Length", fmt.Sprint(len(b.earlier)))
		var doc struct {
			ETag string `json:"_etag"`
		}
		err = json.Unmarshal(b.earlier, &doc)
		resp.Header.Set("ETag", doc.ETag)
	}
	return resp, err
}

// A change was replayed and given up again. The answer to the second Put is
// lost, and an outdated read shows the first dead letter.
func TestPutFailsIfConflictingDocumentWasDeleted(t *testing.T) {
	account, c := newAccount(t, "/id")
	d := fourParts()
	reads := &behind{Account: account, document: documentID(d.Source(), d.ID)}
	cred, err := cosmos.KeyCredential(emulator.Key)
	must(t, err)
	client, err := cosmos.NewClient(account.Endpoint(), cred, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: reads}})
	must(t, err)
	s := newContainer(t, client.Container("db", "c"), 0, 50)
	must(t, s.Put(t.Context(), d))
	first, err := c.Read(t.Context(), reads.document, cosmos.NewPartitionKey(reads.document))
	must(t, err)
	must(t, s.Delete(t.Context(), d))
	d.Time = d.Time.Add(time.Minute)
	account.Inject(emulator.Fault{Method: http.MethodPost, Path: "colls/c/docs$", Nth: 5, Count: 1, Drop: emulator.DropAfter})
	reads.earlier = first.Body
	err = s.Put(t.Context(), d)
	reads.earlier = nil
	if err != nil {
		must(t, s.Put(t.Context(), d))
	}
	same(t, list(t, s, "f"), []trigger.DeadLetter{d})
}

// If a query shows a dead letter that a read does not find, List leaves it out
// only if it was deleted.
func TestListReportsUnreadableDeadLetters(t *testing.T) {
	inBubble(t, func(t *testing.T, account *emulator.Account, s *Container) {
		d, laterLetter := fourParts(), letter("f", "after")
		laterLetter.Time = d.Time.Add(time.Hour)
		must(t, s.Put(t.Context(), d))
		must(t, s.Put(t.Context(), laterLetter))
		letter, part := documentID(of("f"), d.ID)+"$", documentID(of("f"), d.ID)+":.*:0$"
		for name, unreadable := range map[string][]emulator.Fault{
			"letter":               {{Path: letter, Status: http.StatusNotFound}},
			"part, and the letter": {{Path: part, Status: http.StatusNotFound}, {Path: letter, Nth: 2, Status: http.StatusNotFound}},
		} {
			var faults []func()
			for _, fault := range unreadable {
				fault.Method = http.MethodGet
				faults = append(faults, account.Inject(fault))
			}
			if intact, damaged := survey(t, s); fmt.Sprint(intact) != "[after]" || damaged != 1 {
				t.Errorf("%s not found: dead letters %v, %d damaged", name, intact, damaged)
			}
			for _, remove := range faults {
				remove()
			}
		}
	})
	inBubble(t, func(t *testing.T, account *emulator.Account, s *Container) {
		d := fourParts()
		must(t, s.Put(t.Context(), d))
		account.Inject(emulator.Fault{Method: http.MethodGet, Path: ":0$", Status: http.StatusNotFound})
		account.Inject(emulator.Fault{Method: http.MethodGet, Path: documentID(of("f"), d.ID) + "$", Nth: 2, Status: http.StatusForbidden})
		for _, err := range trigger.AllDeadLetters(t.Context(), s, dead("f")) {
			if status, _ := cosmos.Status(err); status != http.StatusForbidden || errors.Is(err, trigger.ErrDamaged) {
				t.Errorf("list that cannot tell damage from a delete: %v", err)
			}
		}
	})
	inBubble(t, func(t *testing.T, account *emulator.Account, s *Container) {
		for _, id := range []string{"a", "b", "c"} {
			must(t, s.Put(t.Context(), letter("f", id)))
		}
		var seen []string
		q := dead("f")
		q.Limit = 1
		for d, err := range trigger.AllDeadLetters(t.Context(), s, q) {
			must(t, err)
			must(t, s.Delete(t.Context(), letter("f", "b")))
			must(t, s.Delete(t.Context(), letter("f", "c")))
			seen = append(seen, d.ID)
		}
		if len(seen) > 2 {
			t.Errorf("dead letters %v, two of which were deleted", seen)
		}
	})
}
