package verify

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Recorded is one exchange of a record: a line of the file, as JSON. It holds no key, token,
// address, or name of an account, database or container.
type Recorded struct {
	Fact   string            `json:"fact,omitempty"`
	After  float64           `json:"after"` // seconds since the first exchange
	Method string            `json:"method"`
	Path   string            `json:"path"`
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body,omitempty"`
	Status int               `json:"status"`
	Answer map[string]string `json:"answer,omitempty"` // headers
	Result string            `json:"result,omitempty"` // body
}

// Headers that a record keeps: those that decide on an answer, and those that Halley reads.
var (
	keptRequest = []string{
		"A-Im", "If-Match", "If-Modified-Since", "If-None-Match", "X-Ms-Cosmos-Batch-Atomic", "X-Ms-Cosmos-Batch-Continue-On-Error",
		"X-Ms-Cosmos-Batch-Ordered", "X-Ms-Cosmos-Changefeed-Wire-Format-Version", "X-Ms-Cosmos-Intended-Collection-Rid",
		"X-Ms-Cosmos-Is-Batch-Request", "X-Ms-Cosmos-Sdk-Supportedcapabilities", "X-Ms-Continuation", "X-Ms-Documentdb-Is-Upsert",
		"X-Ms-Documentdb-Isquery", "X-Ms-Documentdb-Partitionkey", "X-Ms-Documentdb-Partitionkeyrangeid",
		"X-Ms-Documentdb-Query-Enablecrosspartition", "X-Ms-Max-Item-Count", "X-Ms-Offer-Throughput", "X-Ms-Session-Token", "X-Ms-Version",
		"Content-Type", "Prefer",
	}
	keptAnswer = []string{
		"Content-Type", "Date", "Etag", "Lsn", "X-Ms-Continuation", "X-Ms-Cosmos-Llsn", "X-Ms-Global-Committed-Lsn", "X-Ms-Item-Count",
		"X-Ms-Item-Lsn", "X-Ms-Number-Of-Read-Regions", "X-Ms-Request-Charge", "X-Ms-Retry-After-Ms", "X-Ms-Schemaversion",
		"X-Ms-Serviceversion", "X-Ms-Session-Token", "X-Ms-Share-Throughput", "X-Ms-Substatus",
	}
)

// names replaces what a record must not hold.
type names struct{ replacer *strings.Replacer }

// newNames replaces the names of a run. Longer names come first, as one may hold another.
func newNames(endpoint string, s *scratch) names {
	pairs := [][2]string{{s.database, "scratch"}, {s.items, "items"}, {s.leases, "leases"}}
	if s.run != s.database {
		pairs = append(pairs, [2]string{s.run, "run"})
	}
	if u, err := url.Parse(endpoint); err == nil {
		account, _, _ := strings.Cut(u.Hostname(), ".")
		pairs = append(pairs, [2]string{u.Host, "account.example"}, [2]string{u.Hostname(), "account.example"}, [2]string{account, "account"})
	}
	slices.SortStableFunc(pairs, func(a, b [2]string) int { return len(b[0]) - len(a[0]) })
	var list []string
	for _, p := range pairs {
		if p[0] != "" {
			list = append(list, p[0], p[1])
		}
	}
	return names{strings.NewReplacer(list...)}
}

var (
	// hostForm are addresses of an account's regions and of the service's machines.
	hostForm = regexp.MustCompile(`(?i)(?:https?|rntbd)://[^\s"\\,]+|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:documents|cosmos|azure)\.[a-z.]*[a-z](?::\d+)?|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b`)
	// diagnostics follow the first line of an error.
	diagnostics = regexp.MustCompile(`(?s)(?:\\r\\n|,? ?\\r?\\n|, )ActivityId:.*?"`)
)

func (n names) clean(text string) string {
	return hostForm.ReplaceAllString(n.replacer.Replace(text), "address.example")
}

func (n names) recorded(x exchange, first time.Time) Recorded {
	path, err := url.PathUnescape(x.path)
	if err != nil {
		path = x.path
	}
	return Recorded{
		Fact: x.fact, After: x.sent.Sub(first).Round(time.Millisecond).Seconds(), Method: x.method, Path: n.clean(path),
		Header: n.headers(x.request, keptRequest), Body: n.clean(string(x.requestBody)),
		Status: x.status, Answer: n.headers(x.answer, keptAnswer), Result: n.body(x),
	}
}

func (n names) headers(from http.Header, kept []string) map[string]string {
	to := map[string]string{}
	for _, name := range kept {
		switch v := from.Get(name); {
		case v == "":
		case name == "X-Ms-Serviceversion": // it looks like an address
			to[name] = v
		default:
			to[name] = n.clean(v)
		}
	}
	return to
}

// body returns the body of an answer. Of the account it keeps the consistency and how many
// regions there are, of an error the first line.
func (n names) body(x exchange) string {
	if strings.Trim(x.path, "/") == "" {
		var account struct {
			Consistency json.RawMessage   `json:"userConsistencyPolicy"`
			Writable    []json.RawMessage `json:"writableLocations"`
			Readable    []json.RawMessage `json:"readableLocations"`
			Multiple    bool              `json:"enableMultipleWriteLocations"`
		}
		if json.Unmarshal(x.answerBody, &account) != nil {
			return ""
		}
		account.Writable, account.Readable = make([]json.RawMessage, len(account.Writable)), make([]json.RawMessage, len(account.Readable))
		kept, err := json.Marshal(account)
		if err != nil {
			return ""
		}
		return string(kept)
	}
	text := bytes.TrimSpace(x.answerBody)
	if x.status >= http.StatusBadRequest {
		text = diagnostics.ReplaceAll(text, []byte(`"`))
	}
	return n.clean(string(text))
}
