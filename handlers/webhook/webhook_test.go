package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/handlers/outbound"
	"halley/handlers/webhook/receiver"
	"halley/trigger"
	"halley/trigger/triggertest"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

var entry = handlers.New("webhook", "", Open)

// startReceiver starts a receiver and sets the settings of a handler that posts to it.
func startReceiver(t testing.TB) *receiver.Receiver {
	t.Helper()
	r, err := receiver.Start("127.0.0.1:0", secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("HALLEY_WEBHOOK_URL", r.URL())
	t.Setenv("HALLEY_WEBHOOK_SECRETS", secret)
	t.Setenv("HALLEY_WEBHOOK_ALLOW_PRIVATE_ENDPOINT", "true")
	return r
}

func openHandler(t testing.TB) trigger.Handler {
	return handlerstest.Under(t, entry, handlers.Env{Database: "shop"})
}

// upserts returns a change of each document "id key", in order.
func upserts(documents ...string) (changes []trigger.Change) {
	for i, d := range documents {
		id, key, _ := strings.Cut(d, " ")
		changes = append(changes, triggertest.Upsert(fmt.Sprintf(`{"id":%q,"customer":%q,"_etag":"\"%d\"","_lsn":%d}`, id, key, i, i+10), key))
	}
	return changes
}

// posted lists the ids of documents in the order of their requests.
func posted(r *receiver.Receiver) (ids []string) {
	for _, request := range r.Requests() {
		var m receiver.Message
		_ = json.Unmarshal(request.Body, &m)
		ids = append(ids, m.Data.ID)
	}
	return ids
}

func TestMessage(t *testing.T) {
	r := startReceiver(t)
	t.Setenv("HALLEY_WEBHOOK_EVENT", "shop.order")
	document := `{"id":"1","customer":"ada <ada@example.com>","total":12345678901234567890.125,"_rid":"r","_self":"s","_etag":"\"e\"","_attachments":"a","_ts":1,"_lsn":7}`
	if v := triggertest.Deliver(t, openHandler(t), triggertest.Upsert(document, "ada")); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	got := r.Messages()
	if len(got) != 1 {
		t.Fatalf("%d messages", len(got))
	}
	m := got[0]
	if m.Type != "shop.order.changed" || m.Data.ID != "1" || string(m.Data.PartitionKey) != `["ada"]` || m.Data.Epoch != 1 {
		t.Errorf("message %s", m.Body)
	}
	if want := `{"customer":"ada <ada@example.com>","id":"1","total":12345678901234567890.125}`; string(m.Data.Document) != want {
		t.Errorf("document %s, want %s", m.Data.Document, want)
	}
	header := r.Requests()[0].Header
	if header.Get("Content-Type") != "application/json" || !strings.HasPrefix(m.ID, "msg_") || len(m.ID) != 36 {
		t.Errorf("headers %v", header)
	}
}

func TestTypesOfMessages(t *testing.T) {
	r := startReceiver(t)
	handle := openHandler(t)
	for i, c := range []trigger.Change{
		triggertest.Upsert(`{"id":"1"}`, "1"),
		triggertest.SoftDelete(`{"id":"2","deleted":true}`, "2"),
		triggertest.Create(`{"id":"3"}`, "3"),
		triggertest.Replace(`{"id":"4","n":2}`, `{"id":"4","n":1}`, "4"),
		triggertest.Delete("5", "5"),
		triggertest.Expire("6", "6"),
	} {
		if v := triggertest.Deliver(t, handle, c); len(v.Failed) > 0 {
			t.Fatal(i, v)
		}
	}
	var got []string
	for _, m := range r.Messages() {
		got = append(got, fmt.Sprintf("%s %s %s %s", m.Type, m.Data.ID, m.Data.Document, m.Data.Previous))
	}
	want := []string{
		`document.changed 1 {"id":"1"} `, `document.deleted 2 {"deleted":true,"id":"2"} `, `document.created 3 {"id":"3"} `,
		`document.replaced 4 {"id":"4","n":2} {"id":"4","n":1}`, `document.deleted 5  `, `document.expired 6  `,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// The id of a message depends on the version of the document alone.
func TestMessageIDs(t *testing.T) {
	change := func(document string, lsn int64) trigger.Change {
		c := triggertest.Upsert(document, "k")
		c.LSN = lsn
		return c
	}
	first := messageID("webhook", "shop", change(`{"id":"1","_etag":"\"a\""}`, 5))
	for name, c := range map[string]struct {
		id   string
		same bool
	}{
		"delivered again":        {messageID("webhook", "shop", change(`{"id":"1","_etag":"\"a\""}`, 5)), true},
		"other LSN after a move": {messageID("webhook", "shop", change(`{"id":"1","_etag":"\"a\""}`, 9)), true},
		"next version":           {messageID("webhook", "shop", change(`{"id":"1","_etag":"\"b\""}`, 5)), false},
		"other document":         {messageID("webhook", "shop", change(`{"id":"2","_etag":"\"a\""}`, 5)), false},
		"other function":         {messageID("audit", "shop", change(`{"id":"1","_etag":"\"a\""}`, 5)), false},
		"other container":        {messageID("webhook", "test", change(`{"id":"1","_etag":"\"a\""}`, 5)), false},
		"deleted":                {messageID("webhook", "shop", triggertest.Delete("1", "k")), false},
	} {
		if (c.id == first) != c.same {
			t.Errorf("%s: %s, the first is %s", name, c.id, first)
		}
	}
	one, other := triggertest.Delete("1", "k"), triggertest.Delete("1", "k")
	one.LSN, other.LSN = 1, 2
	if messageID("f", "d", one) == messageID("f", "d", other) {
		t.Error("two deletes of one id are the same message")
	}
}

func TestStatuses(t *testing.T) {
	tests := []struct {
		status  int
		verdict string // with two keys of a document each
	}{
		{200, "2 handled"}, {202, "2 handled"}, {299, "2 handled"},
		{301, "2 failed"}, {307, "2 failed"},
		{400, "2 given up"}, {413, "2 given up"}, {415, "2 given up"}, {422, "2 given up"},
		{401, "2 failed"}, {403, "2 failed"}, {404, "2 failed"}, {405, "2 failed"}, {408, "2 failed"}, {409, "2 failed"}, {425, "2 failed"}, {429, "2 failed"},
		{410, "2 given up"},
		{500, "2 failed"}, {502, "2 failed"}, {503, "2 failed"}, {504, "2 failed"}, {529, "2 failed"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			r := startReceiver(t)
			r.Respond(func(receiver.Request) *receiver.Answer {
				return &receiver.Answer{Status: tt.status, Header: http.Header{"Location": {"http://127.0.0.1:1/"}}, Text: "because"}
			})
			v := triggertest.Deliver(t, openHandler(t), upserts("1 ada", "2 bob")...)
			if !strings.Contains(v.String(), tt.verdict) {
				t.Errorf("verdict %v, want %s", v, tt.verdict)
			}
			if tt.status/100 != 2 && tt.status != 410 && !strings.Contains(v.Err.Error(), fmt.Sprint(" answered ", tt.status)) {
				t.Errorf("error %v", v.Err)
			}
		})
	}
}

// One refused message is given up alone; its neighbours are handled.
func TestRefusedMessageIsGivenUpAlone(t *testing.T) {
	r := startReceiver(t)
	r.Respond(refuseDocument("2", 422))
	v := triggertest.Deliver(t, openHandler(t), upserts("1 ada", "2 bob", "3 cid")...)
	if !strings.HasPrefix(v.String(), `2 handled, 1 given up ["2"]`) || !strings.Contains(v.Err.Error(), "answered 422 Unprocessable Entity") {
		t.Error(v)
	}
}

func refuseDocument(id string, status int) func(receiver.Request) *receiver.Answer {
	return func(request receiver.Request) *receiver.Answer {
		var m receiver.Message
		if _ = json.Unmarshal(request.Body, &m); m.Data.ID == id {
			return &receiver.Answer{Status: status}
		}
		return nil
	}
}

// If a later change of its key is in the batch, a refused message is not given up yet:
// the runtime decides about the later one.
func TestLaterChangesOfFailedKeyAreNotPosted(t *testing.T) {
	for _, status := range []int{422, 500} {
		r := startReceiver(t)
		r.Respond(refuseDocument("1", status))
		v := triggertest.Deliver(t, openHandler(t), upserts("1 ada", "2 bob", "3 ada", "4 bob")...)
		if !strings.HasPrefix(v.String(), `2 handled, 2 failed ["1" "3"]`) {
			t.Errorf("%d: %v", status, v)
		}
		if ids := posted(r); slices.Contains(ids, "3") || !slices.Contains(ids, "4") {
			t.Errorf("%d: posted %q", status, ids)
		}
	}
}

func TestOrderWithinKey(t *testing.T) {
	r := startReceiver(t)
	var documents []string
	for i := range 60 {
		documents = append(documents, fmt.Sprintf("%d k%d", i, i%3))
	}
	if v := triggertest.Deliver(t, openHandler(t), upserts(documents...)...); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	last := map[int]int{}
	for _, id := range posted(r) {
		var n int
		fmt.Sscan(id, &n)
		if before, ok := last[n%3]; ok && n != before+3 || !ok && n != n%3 {
			t.Errorf("key %d: %d after %d", n%3, n, before)
		}
		last[n%3] = n
	}
}

// When the receiver is overloaded, the call posts nothing more.
func TestOverloadedReceiverIsLeftAlone(t *testing.T) {
	r := startReceiver(t)
	t.Setenv("HALLEY_WEBHOOK_PARALLEL", "1")
	r.Respond(refuseDocument("2", 503))
	var sinks handlerstest.Sinks
	handle := handlerstest.Under(t, entry, handlers.Env{Measure: sinks.Measure})
	v := triggertest.Deliver(t, handle, upserts("1 ada", "2 bob", "3 cid", "4 dan")...)
	if !strings.HasPrefix(v.String(), `1 handled, 3 failed ["2" "3" "4"]`) || len(r.Requests()) != 2 {
		t.Errorf("%v, %d requests", v, len(r.Requests()))
	}
	if total := sinks.Of("webhook"); total != (handlerstest.SinkTotal{OK: 1, Throttled: 1, Rows: 1}) {
		t.Errorf("measured %+v", total)
	}
}

// throttleOnce has a receiver refuse its first request, and counts all of them. retryAfter is in seconds.
func throttleOnce(r *receiver.Receiver, retryAfter string) (calls *atomic.Int64) {
	calls = new(atomic.Int64)
	r.Respond(func(receiver.Request) *receiver.Answer {
		if calls.Add(1) == 1 {
			return &receiver.Answer{Status: 429, Header: http.Header{"Retry-After": {retryAfter}}}
		}
		return nil
	})
	return calls
}

func TestRetryAfterIsWaitedFor(t *testing.T) {
	r := startReceiver(t)
	calls := throttleOnce(r, "1")
	handle := openHandler(t)
	if v := triggertest.Deliver(t, handle, upserts("1 ada")...); len(v.Failed) != 1 || !strings.Contains(v.Err.Error(), "429 Too Many Requests, retry after 1s") {
		t.Fatal(v)
	}
	// With less time than that, the call fails at once and posts nothing.
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	v := triggertest.Call{Context: short}.Deliver(t, handle, upserts("1 ada")...)
	if len(v.Failed) != 1 || calls.Load() != 1 || short.Err() != nil {
		t.Errorf("%v after %v and %d requests", v, time.Since(began), calls.Load())
	}
	if v := triggertest.Deliver(t, handle, upserts("1 ada")...); len(v.Failed) > 0 || time.Since(began) < 800*time.Millisecond {
		t.Errorf("%v after %v", v, time.Since(began))
	}
}

// A pause is one of the process whose request was refused: a second process posts. The page of the
// handler tells operators so, and how all hosts are stopped at once.
func TestPauseIsOfOneProcess(t *testing.T) {
	r := startReceiver(t)
	calls := throttleOnce(r, "3600")
	paused, other := openHandler(t), openHandler(t)
	short, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		if v := (triggertest.Call{Context: short}).Deliver(t, paused, upserts("1 ada")...); len(v.Failed) != 1 || calls.Load() != 1 {
			t.Fatalf("%v after %d requests", v, calls.Load())
		}
	}
	if v := triggertest.Deliver(t, other, upserts("1 ada")...); len(v.Failed) > 0 || calls.Load() != 2 {
		t.Errorf("%v after %d requests", v, calls.Load())
	}
	page, err := os.ReadFile("../../docs/handlers/webhook.md")
	if err != nil || !strings.Contains(string(page), "kept in the memory of one process") || !strings.Contains(string(page), "`halley leases pause`") {
		t.Errorf("the page does not say of which hosts a pause is: %v", err)
	}
}

// After 410 nothing is posted for a while, and everything is dead-lettered.
func TestGoneReceiver(t *testing.T) {
	r := startReceiver(t)
	t.Setenv("HALLEY_WEBHOOK_PARALLEL", "1")
	r.Respond(refuseDocument("2", 410))
	core, logs := observer.New(zap.WarnLevel)
	handle := handlerstest.Under(t, entry, handlers.Env{Logger: zap.New(core)})
	v := triggertest.Deliver(t, handle, upserts("1 ada", "2 bob", "3 bob", "4 cid")...)
	if !strings.HasPrefix(v.String(), `1 handled, 3 given up ["2" "3" "4"]: `) || !strings.Contains(v.Err.Error(), "410 Gone") {
		t.Error(v)
	}
	v = triggertest.Deliver(t, handle, upserts("5 ada", "6 bob")...)
	if !strings.HasPrefix(v.String(), `0 handled, 2 given up ["5" "6"]`) || len(r.Requests()) != 2 || logs.Len() != 1 {
		t.Errorf("%v, %d requests, %d warnings", v, len(r.Requests()), logs.Len())
	}
}

func TestNoAnswer(t *testing.T) {
	r := startReceiver(t)
	stop := make(chan struct{})
	r.Respond(func(receiver.Request) *receiver.Answer {
		<-stop
		return nil
	})
	defer close(stop)
	t.Setenv("HALLEY_WEBHOOK_REQUEST_TIMEOUT", "50ms")
	v := triggertest.Deliver(t, openHandler(t), upserts("1 ada")...)
	if len(v.Failed) != 1 || v.GivenUp || !strings.Contains(v.Err.Error(), "webhook receiver 127.0.0.1:") || strings.Contains(v.Err.Error(), "/hooks") {
		t.Error(v)
	}
}

// A receiver that changes to a new secret accepts messages before and after.
func TestSecretRotation(t *testing.T) {
	r := startReceiver(t)
	other := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("n", 32)))
	t.Setenv("HALLEY_WEBHOOK_SECRETS", other)
	if v := triggertest.Deliver(t, openHandler(t), upserts("1 ada")...); len(v.Failed) != 1 || !strings.Contains(v.Err.Error(), "401 Unauthorized, check that the receiver has one of the secrets") {
		t.Errorf("another secret: %v", v)
	}
	t.Setenv("HALLEY_WEBHOOK_SECRETS", other+", "+secret)
	if v := triggertest.Deliver(t, openHandler(t), upserts("1 ada")...); len(v.Failed) > 0 {
		t.Error(v)
	}
	if signatures := strings.Fields(r.Requests()[0].Header.Get("webhook-signature")); len(signatures) != 2 {
		t.Errorf("signatures %q", signatures)
	}
}

func TestBadSettings(t *testing.T) {
	good := Settings{URL: "https://example.com/hooks/hunter2", Secrets: secret, Event: "order", Parallel: 8, RequestTimeout: handlers.Interval(time.Second)}
	tests := []struct {
		name   string
		change func(*Settings)
		want   string
	}{
		{"no URL", func(s *Settings) { s.URL = "" }, "URL is empty"},
		{"plain http", func(s *Settings) { s.URL = "http://example.com/hunter2" }, `URL is not allowed as a target: its scheme is "http"`},
		{"loopback", func(s *Settings) { s.URL = "https://127.0.0.1/hunter2" }, "URL is not allowed as a target: its host 127.0.0.1 is not a public address"},
		{"metadata service", func(s *Settings) { s.URL = "https://169.254.169.254/hunter2" }, "URL is not allowed as a target"},
		{"private in development", func(s *Settings) { s.URL, s.AllowPrivateEndpoint = "http://10.0.0.1/hunter2", true }, "URL is not allowed as a target"},
		{"other port", func(s *Settings) { s.URL = "https://example.com:8443/hunter2" }, "URL is not allowed as a target: its port is 8443"},
		{"user name", func(s *Settings) { s.URL = "https://me:hunter2@example.com" }, "URL is not allowed as a target: it holds a user name"},
		{"no secret", func(s *Settings) { s.Secrets = " , " }, "SECRETS is empty"},
		{"secret without prefix", func(s *Settings) { s.Secrets = secret + " hunter2" }, "SECRETS has a secret, number 2, that does not begin with whsec_"},
		{"secret that is not base64", func(s *Settings) { s.Secrets = "whsec_hunter2-" }, "SECRETS has a secret, number 1, that is not base64"},
		{"short secret", func(s *Settings) { s.Secrets = "whsec_aHVudGVyMg==" }, "SECRETS has a secret, number 1, of 7 bytes; the specification allows 24 to 64"},
		{"event", func(s *Settings) { s.Event = "order placed" }, `EVENT is "order placed"`},
		{"event with two dots", func(s *Settings) { s.Event = "order..placed" }, `EVENT is "order..placed"`},
		{"parallel", func(s *Settings) { s.Parallel = 101 }, "PARALLEL is 101"},
		{"timeout", func(s *Settings) { s.RequestTimeout = 0 }, "REQUEST_TIMEOUT is 0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := good
			tt.change(&s)
			_, _, err := Open(t.Context(), handlers.Env{Prefix: "HALLEY_WEBHOOK_"}, s)
			if err == nil || !strings.HasPrefix(err.Error(), "setting HALLEY_WEBHOOK_"+tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
		})
	}
	if _, closer, err := Open(t.Context(), handlers.Env{}, good); err != nil || closer() != nil {
		t.Error(err)
	}
}

func TestSettingsArePrintedWithoutSecrets(t *testing.T) {
	s := Settings{URL: "https://example.com/hooks/hunter2?key=hunter2", Secrets: "whsec_hunter2"}
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%v %+v %#v %s %q %x %s", s, s, s, s.URL, s.URL, s.URL, encoded)
	if strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) || !strings.Contains(text, "https://example.com/[redacted]") {
		t.Error(text)
	}
}

func TestProbe(t *testing.T) {
	r := startReceiver(t)
	var probe handlers.Probe
	env := handlers.Env{Probe: func(p handlers.Probe) { probe = p }}
	handlerstest.Under(t, entry, env)
	if err := probe.Try(t.Context()); err != nil || !strings.HasPrefix(probe.What, "webhook receiver 127.0.0.1:") {
		t.Errorf("%s: %v", probe.What, err)
	}
	if len(r.Requests()) > 0 {
		t.Error("the probe posted a message")
	}
	t.Setenv("HALLEY_WEBHOOK_URL", "http://127.0.0.1:1/hooks")
	handlerstest.Under(t, entry, env)
	if err := probe.Try(t.Context()); err == nil || !strings.Contains(err.Error(), "start the receiver, or correct HALLEY_WEBHOOK_URL") || strings.Contains(err.Error(), "/hooks") {
		t.Error(err)
	}
}

func TestTLSAndPool(t *testing.T) {
	config, files := handlerstest.Certificate(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	server.TLS = config
	server.StartTLS()
	defer server.Close()
	startReceiver(t) // for the other settings
	t.Setenv("HALLEY_WEBHOOK_URL", server.URL)
	handlerstest.RequireTLS(t, "HALLEY_WEBHOOK_", files, func() trigger.Verdict { return triggertest.Deliver(t, openHandler(t), upserts("1 ada")...) })
	w, err := open(handlers.Env{}, Settings{URL: "https://example.com/hooks", Secrets: secret, Event: "order", Parallel: 8, RequestTimeout: handlers.Interval(time.Second), PoolSize: 3})
	if err != nil {
		t.Fatal(err)
	}
	if pool := w.client.Transport.(*outbound.Transport); pool.MaxConnsPerHost != 3 {
		t.Errorf("%d connections", pool.MaxConnsPerHost)
	}
}
