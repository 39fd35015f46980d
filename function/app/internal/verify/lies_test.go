package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/trigger/emulator"
)

// answer is an answer of the account that a lie may falsify.
type answer struct {
	path    string
	request http.Header
	read    int // number of the read of the feed in its fact, from 1
	*http.Response
	body []byte
}

func (a *answer) feed() bool {
	return a.request.Get("A-Im") != "" && strings.HasSuffix(a.path, "/docs")
}

func (a *answer) changes() bool { return a.feed() && a.StatusCode == http.StatusOK }

func (a *answer) replace(expression, text string) {
	a.body = regexp.MustCompile(expression).ReplaceAll(a.body, []byte(text))
}

// documents edits the list of documents.
func (a *answer) documents(edit func([]json.RawMessage) []json.RawMessage) {
	var body map[string]json.RawMessage
	var list []json.RawMessage
	if json.Unmarshal(a.body, &body) != nil || json.Unmarshal(body["Documents"], &list) != nil {
		return
	}
	list = edit(list)
	body["Documents"], _ = json.Marshal(list)
	body["_count"] = json.RawMessage(strconv.Itoa(len(list)))
	a.body, _ = json.Marshal(body)
	a.Header.Set("X-Ms-Item-Count", strconv.Itoa(len(list)))
}

func dropFirst(list []json.RawMessage) []json.RawMessage { return list[min(1, len(list)):] }

func dropAll([]json.RawMessage) []json.RawMessage { return []json.RawMessage{} }

// etag adds to the LSN of the etag.
func (a *answer) etag(add int64) {
	lsn, _ := strconv.ParseInt(strings.Trim(a.Header.Get("Etag"), `"`), 10, 64)
	a.Header.Set("Etag", position(lsn+add))
}

func (a *answer) turn(from, to int, body string) {
	if a.StatusCode == from {
		a.StatusCode, a.body = to, []byte(body)
		a.Header.Del("X-Ms-Substatus")
	}
}

func onChanges(lie func(*answer)) func(*answer) {
	return func(a *answer) {
		if a.changes() {
			lie(a)
		}
	}
}

func onRead(n int, lie func(*answer)) func(*answer) {
	return func(a *answer) {
		if a.feed() && a.read == n {
			lie(a)
		}
	}
}

// once applies a lie to the first answer with changes.
func once(lie func(*answer)) func(*answer) {
	var told sync.Once
	return onChanges(func(a *answer) { told.Do(func() { lie(a) }) })
}

// lies has for each fact an account that behaves otherwise in it.
func lies() map[string]func(*answer) {
	drop := func(a *answer) { a.documents(dropFirst) }
	return map[string]func(*answer){
		"account: consistency": func(a *answer) {
			a.replace(`"defaultConsistencyLevel": ?"[A-Za-z]+"`, `"defaultConsistencyLevel":"Eventual"`)
		},
		"ranges: incremental read": func(a *answer) {
			switch {
			case !strings.HasSuffix(a.path, "/pkranges"):
			case a.request.Get("If-None-Match") == `"lie"`:
				a.turn(200, 304, "")
			default:
				a.turn(304, 200, `{"PartitionKeyRanges":[{"id":"7","minInclusive":"","maxExclusive":"FF","parents":["0"]}]}`)
				a.Header.Set("Etag", `"lie"`)
			}
		},
		"ranges: unknown range": func(a *answer) { a.turn(410, 304, ""); a.Header.Set("Etag", `"1"`) },
		"absent container":      func(a *answer) { a.turn(404, 200, `{"id":"x"}`) },
		"recreated container": func(a *answer) {
			if a.feed() {
				a.turn(400, 304, "")
				a.Header.Set("Etag", `"1"`)
			}
		},
		"throttling": func(a *answer) { a.Header.Del("X-Ms-Retry-After-Ms") },
		"split":      onChanges(func(a *answer) { a.replace(`"_lsn":\d+`, `"_lsn":0`) }),

		"feed: end":                             onRead(1, func(a *answer) { a.Header.Set("Etag", `"abc"`) }),
		"feed: etag of a 304":                   onRead(2, func(a *answer) { a.etag(-1) }),
		"feed: LSN of a change":                 onChanges(func(a *answer) { a.replace(`"_lsn":`, `"_lsn":9`) }),
		"feed: etag of the last page":           onChanges(func(a *answer) { a.etag(5) }),
		"feed: etag of a cut page":              onRead(1, func(a *answer) { a.etag(1) }),
		"feed: etag ahead of the last document": onRead(2, func(a *answer) { a.etag(-3) }),
		"feed: position of an inner change":     onRead(1, drop),
		"feed: new writes": func(a *answer) {
			if a.StatusCode == http.StatusCreated {
				a.Header.Set("Lsn", "1")
			}
		},
		"feed: rewritten document": once(func(a *answer) {
			a.documents(func(list []json.RawMessage) []json.RawMessage { return append(list[len(list)-1:], list...) })
		}),
		"feed: transaction":       onRead(2, drop),
		"feed: bulk":              onRead(2, drop),
		"feed: If-Modified-Since": onChanges(func(a *answer) { a.documents(dropAll) }),
		"feed: neighbours": func(a *answer) {
			if a.StatusCode == http.StatusCreated && strings.Contains(a.path, "-items/") {
				a.Header.Set("Lsn", "1")
			}
		},
		"feed: position of the future": onRead(2, func(a *answer) {
			a.turn(304, 200, `{"Documents":[{"id":"x","_lsn":9,"_ts":9}],"_count":1}`)
		}),
		"feed: what all regions have": func(a *answer) { a.Header.Del("X-Ms-Global-Committed-Lsn") },
		"feed: soft delete":           onChanges(func(a *answer) { a.replace(`"deleted":true`, `"deleted":false`) }),
		"feed: expired document":      func(a *answer) { a.turn(404, 200, `{"id":"x"}`) },

		"all versions: order":                       onChanges(drop),
		"all versions: delete":                      onChanges(func(a *answer) { a.replace(`"partitionKey":\{[^}]*\}`, `"partitionKey":{}`) }),
		"all versions: position of an inner change": onChanges(drop),
		"all versions: etag of a 304":               onRead(2, func(a *answer) { a.etag(-1) }),

		"lease: create":        func(a *answer) { a.turn(409, 201, "{}") },
		"lease: If-Match":      func(a *answer) { a.turn(412, 200, "{}") },
		"lease: delete":        func(a *answer) { a.turn(412, 204, "") },
		"lease: If-None-Match": func(a *answer) { a.turn(304, 200, `{"id":"x"}`) },
		"lease: query":         func(a *answer) { a.documents(dropAll) },
		"session: token":       func(a *answer) { a.Header.Set("X-Ms-Session-Token", "0:x") },
		"clock: _ts and Date":  func(a *answer) { a.replace(`"_ts":\d`, `"_ts":2`) },
		"absent document":      func(a *answer) { a.turn(404, 200, `{"id":"x"}`) },

		"end to end: handover": once(drop),
		"end to end: drain":    once(drop),
		"end to end: dead letter": func(a *answer) {
			if !a.feed() {
				a.documents(dropAll)
			}
		},
	}
}

// everyFact has a liar falsify the answers to all facts.
const everyFact = "*"

// liar passes requests on and falsifies the answers to those of one fact, or of all. It also plays what
// the embedded account does not do by itself: it throttles the fact about that, and splits
// a range when its throughput is raised.
func liar(account *emulator.Account, next policy.Transporter, fact string, lie func(*answer)) transport {
	var mu sync.Mutex
	reads, writes := 0, 0
	return func(req *http.Request) (*http.Response, error) {
		now := factOf(req.Context())
		resp, err := next.Do(req)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		if now == "throttling" && req.Method == http.MethodPut {
			if writes++; writes > 20 {
				resp.StatusCode, body = http.StatusTooManyRequests, []byte("{}")
				resp.Header.Set("X-Ms-Substatus", "3200")
				resp.Header.Set("X-Ms-Retry-After-Ms", "500")
			}
		}
		if strings.HasPrefix(req.URL.Path, "/offers/") && req.Method == http.MethodPut {
			if _, err := account.Split("halley-verify-t", "halley-verify-t-split", "0"); err != nil {
				return nil, err
			}
		}
		a := &answer{path: req.URL.Path, request: req.Header, Response: resp, body: body}
		if now == fact || fact == everyFact {
			if a.feed() {
				reads++
				a.read = reads
			}
			lie(a)
		}
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body))
		resp.Header.Set("Content-Length", fmt.Sprint(len(a.body)))
		return resp, nil
	}
}

// everything are the options of a run that tries all facts.
func everything(t testing.TB, endpoint string, through transport) Options {
	o := options(t, endpoint, through)
	o.Throttle, o.Split = true, true
	return o
}

func TestEveryFactCanBeVerified(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		report, err := Run(t.Context(), everything(t, account.Endpoint(), liar(account, account, "none", nil)))
		verified(t, report, err)
		for _, row := range report.Rows {
			if row.Verdict != VerdictSame {
				t.Errorf("%s: %s: %s", row.Fact, row.Verdict, row.Seen)
			}
		}
	})
}

// Each lie is named by the row of its fact and by no other one.
func TestLiesAreNamed(t *testing.T) {
	planted := lies()
	for _, f := range facts() {
		t.Run(f.name, func(t *testing.T) {
			lie := planted[f.name]
			if lie == nil {
				t.Fatal("no lie is planted for this fact")
			}
			inAccount(t, func(t *testing.T, account *emulator.Account) {
				report, err := Run(t.Context(), everything(t, account.Endpoint(), liar(account, account, f.name, lie)))
				if err != nil {
					t.Fatal(err)
				}
				if named := differing(report); !slices.Equal(named, []string{f.name}) {
					t.Errorf("named %q", named)
				}
				wanted := CodeRemarks
				if f.grave {
					wanted = CodeUnusable
				}
				if report.Code != wanted {
					t.Errorf("exit code %d, want %d: %s", report.Code, wanted, report.Verdict)
				}
			})
		})
	}
}

// differing returns the facts that differ.
func differing(report *Report) (named []string) {
	for _, row := range report.Rows {
		if row.Verdict == VerdictDiffers {
			named = append(named, row.Fact)
		}
	}
	return named
}

// An account that behaves otherwise in all answers, not only in those to one fact, differs
// in the rows that show this behaviour, and in no others.
func TestLiesOfTheWholeAccountAreNamed(t *testing.T) {
	for fact, also := range map[string][]string{
		"account: consistency":        nil,
		"throttling":                  nil,
		"feed: soft delete":           nil,
		"feed: what all regions have": nil,
		"all versions: delete":        nil,
		"lease: create":               nil,
		"lease: If-Match":             {"lease: delete"}, // both see that a condition is ignored
		"session: token":              nil,
		"clock: _ts and Date":         nil,
		"feed: LSN of a change":       {"feed: etag of the last page", "feed: etag of a cut page", "feed: rewritten document"},
	} {
		t.Run(fact, func(t *testing.T) {
			inAccount(t, func(t *testing.T, account *emulator.Account) {
				report, err := Run(t.Context(), everything(t, account.Endpoint(), liar(account, account, everyFact, lies()[fact])))
				if err != nil {
					t.Fatal(err)
				}
				if named := differing(report); !slices.Equal(named, append([]string{fact}, also...)) {
					t.Errorf("named %q", named)
				}
			})
		})
	}
}
