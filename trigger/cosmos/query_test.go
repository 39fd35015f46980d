package cosmos

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var queryHeaders = []string{"Content-Type", "x-ms-documentdb-isquery", "x-ms-documentdb-query-enablecrosspartition", "x-ms-documentdb-partitionkey", "x-ms-max-item-count", "x-ms-continuation"}

func TestQueryPages(t *testing.T) {
	s := newService(t,
		ok(`{"_rid":"r","Documents":[{"id":"a"},2],"_count":2}`, "x-ms-continuation", "next\"1", "x-ms-request-charge", "3"),
		ok(`{"_rid":"r","Documents":[],"_count":0}`, "x-ms-continuation", "next2"),
		ok(`{"_rid":"r","Documents":["b"],"_count":1}`))
	var items []string
	pages := 0
	query := Query{Text: "SELECT * FROM c WHERE c.n = @n", Parameters: []Parameter{{"@n", 5}}, MaxItems: 2}
	for page, err := range s.container().Query(t.Context(), query) {
		if err != nil {
			t.Fatal(err)
		}
		if pages++; pages == 1 && (page.Continuation != `next"1` || page.Charge != 3 || page.Date.IsZero()) {
			t.Errorf("%+v", page)
		}
		for _, item := range page.Items {
			items = append(items, string(item))
		}
	}
	if diff := cmp.Diff([]string{`{"id":"a"}`, `2`, `"b"`}, items); diff != "" || pages != 3 {
		t.Errorf("%d pages\n%s", pages, diff)
	}
	for i, continuation := range []string{"", `next"1`, "next2"} {
		want := map[string]string{"Content-Type": "application/query+json", "x-ms-documentdb-isquery": "true", "x-ms-documentdb-query-enablecrosspartition": "true", "x-ms-max-item-count": "2"}
		if continuation != "" {
			want["x-ms-continuation"] = continuation
		}
		if diff := cmp.Diff(want, headersOf(s.requests[i].Header, queryHeaders)); diff != "" {
			t.Error(diff)
		}
		if body := s.requests[i].body; body != `{"query":"SELECT * FROM c WHERE c.n = @n","parameters":[{"name":"@n","value":5}]}` {
			t.Error(body)
		}
	}
}

func TestQueryOfOneKey(t *testing.T) {
	s := newService(t, ok(emptyPage))
	for range s.container().Query(t.Context(), Query{Text: "SELECT 1", PartitionKey: &onePK, Continuation: "from"}) {
	}
	want := map[string]string{"Content-Type": "application/query+json", "x-ms-documentdb-isquery": "true", "x-ms-documentdb-partitionkey": `["a"]`, "x-ms-max-item-count": "-1", "x-ms-continuation": "from"}
	if diff := cmp.Diff(want, headersOf(s.requests[0].Header, queryHeaders)); diff != "" || s.requests[0].body != `{"query":"SELECT 1","parameters":[]}` {
		t.Error(diff, s.requests[0].body)
	}
}

func TestQueryStopsEarly(t *testing.T) {
	partialPage := ok(emptyPage, "x-ms-continuation", "more")
	t.Run("when the caller stops", func(t *testing.T) {
		s := newService(t, partialPage)
		for range s.container().Query(t.Context(), Query{Text: "SELECT 1"}) {
			break
		}
		if len(s.requests) != 1 {
			t.Errorf("%d requests", len(s.requests))
		}
	})
	for name, test := range map[string]struct {
		query  Query
		answer any
		want   string
	}{
		"refused":      {Query{Text: "SELECT 1"}, status(400, "x-ms-substatus", "1004"), "remove ORDER BY and aggregates"},
		"not a page":   {Query{Text: "SELECT 1"}, ok("[]"), "query dbs/Games/colls/High Scores: answer is not a page of documents"},
		"no key":       {Query{Text: "SELECT 1", PartitionKey: &PartitionKey{}}, partialPage, "no partition key"},
		"no parameter": {Query{Text: "SELECT 1", Parameters: []Parameter{{"@f", func() {}}}}, partialPage, "parameters: json"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, test.answer)
			n := 0
			for page, err := range s.container().Query(t.Context(), test.query) {
				if n++; page != nil || err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %q", err, test.want)
				}
			}
			if n != 1 {
				t.Errorf("%d results", n)
			}
		})
	}
}

func TestCreateResources(t *testing.T) {
	s := newService(t, func() *http.Response { return reply(201, "") }, func() *http.Response { return reply(201, "") }, status(409))
	c, ttl := s.client(nil), -1
	if err := c.CreateDatabase(t.Context(), "games"); err != nil {
		t.Fatal(err)
	}
	def := ContainerDefinition{ID: "leases", PartitionKey: PartitionKeyDefinition{Paths: []string{"/id"}}, DefaultTTL: &ttl, Throughput: 400}
	if err := c.CreateContainer(t.Context(), "ga mes", def); err != nil {
		t.Fatal(err)
	}
	err := c.CreateContainer(t.Context(), "games", ContainerDefinition{ID: "x", PartitionKey: PartitionKeyDefinition{Paths: []string{"/a", "/b"}}})
	if !isStatus(err, 409) || !strings.HasPrefix(err.Error(), "create container dbs/games/colls/x: 409") {
		t.Error(err)
	}
	want := []string{
		`POST /dbs {"id":"games"}`,
		`POST /dbs/ga%20mes/colls {"id":"leases","partitionKey":{"paths":["/id"],"kind":"Hash","version":2},"defaultTtl":-1}`,
		`POST /dbs/games/colls {"id":"x","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2}}`,
	}
	for i, r := range s.requests {
		if got := r.Method + " " + r.URL.EscapedPath() + " " + r.body; got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[i])
		}
	}
	if got := s.requests[1].Header.Get("x-ms-offer-throughput"); got != "400" || s.requests[2].Header.Get("x-ms-offer-throughput") != "" {
		t.Errorf("throughput %q", got)
	}
}

func TestProperties(t *testing.T) {
	container := ok(`{"id":"High Scores","_rid":"Sl8fALN4sw4=","_etag":"\"e\"","_ts":1700000000,"defaultTtl":-1,"partitionKey":{"paths":["/id"]}}`)
	s := newService(t, container, ok(`{"id":"Games","_rid":"Sl8fAA=="}`))
	c := s.container()
	ttl := -1
	want := ContainerProperties{
		ID: "High Scores", ResourceID: "Sl8fALN4sw4=", DatabaseResourceID: "Sl8fAA==", DefaultTTL: &ttl, ETag: `"e"`, Modified: time.Unix(1700000000, 0).UTC(),
		PartitionKey: PartitionKeyDefinition{Paths: []string{"/id"}, Kind: "Hash", Version: 1},
	}
	for range 2 {
		got, err := c.Properties(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
	}
	if len(s.requests) != 2 {
		t.Errorf("%d requests: the answer is kept", len(s.requests))
	}
	c.Forget()
	s.answer = script(container)
	if _, err := c.Properties(t.Context()); err != nil || len(s.requests) != 4 {
		t.Errorf("%d requests after Forget, %v", len(s.requests), err)
	}
	if reopened := c.Client().Container("Games", "High Scores"); reopened != c || reopened.Name() != "High Scores" || reopened.Database() != "Games" {
		t.Error("another container of the same name")
	}
	s = newService(t, ok(`{"id":"x"}`))
	if _, err := s.container().Properties(t.Context()); err == nil || !strings.Contains(err.Error(), "no _rid") {
		t.Error(err)
	}
}
