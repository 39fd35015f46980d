package emulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func (c *client) batch(want, operations string, h ...string) (statuses []int, results []batchResult) {
	c.t.Helper()
	h = append(h, "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True", "x-ms-cosmos-batch-ordered", "True")
	a := c.expect(want, "POST", items, operations, with(pk("k"), h...)...)
	if a.status >= 400 {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(a.body), &results); err != nil {
		c.t.Fatal(err)
	}
	for _, r := range results {
		statuses = append(statuses, r.StatusCode)
	}
	return statuses, results
}

func operation(kind, id string) string {
	return fmt.Sprintf(`{"operationType":%q,"id":%q,"resourceBody":{"id":%q,"pk":"k"}}`, kind, id, id)
}

func TestBatch(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	c.create("old", "k")
	c.create("gone", "k")
	operations := []string{
		operation("Create", "new"),
		operation("Upsert", "new"),
		operation("Replace", "old"),
		`{"operationType":"Read","id":"old"}`,
		`{"operationType":"Patch","id":"new","resourceBody":{"operations":[{"op":"set","path":"/v","value":1}]}}`,
		`{"operationType":"Delete","id":"gone"}`,
	}
	statuses, results := c.batch("200", "["+strings.Join(operations, ",")+"]")
	if !slices.Equal(statuses, []int{201, 200, 200, 200, 200, 204}) {
		t.Errorf("statuses %v", statuses)
	}
	for i, r := range results {
		if r.RequestCharge <= 0 || (i < 5) != (r.ETag != "") || (i < 5) != (len(r.Body) > 0) {
			t.Errorf("result %d is %+v", i, r)
		}
	}
	lsns := map[float64]int{}
	for _, d := range c.feed("200").documents(t) {
		lsns[d["_lsn"].(float64)]++
	}
	if len(lsns) != 1 || lsns[4] != 2 {
		t.Errorf("the documents of one batch have the LSNs %v", lsns)
	}
	_, results = c.batch("200", "["+operation("Upsert", "new")+`,{"operationType":"Read","id":"old"}]`, "Prefer", "return=minimal")
	if results[0].Body != nil || results[1].Body == nil {
		t.Errorf("with return=minimal: %s and %s", results[0].Body, results[1].Body)
	}
}

func TestBatchIsNeverDividedBetweenPages(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	c.create("before", "k")
	var operations []string
	for i := range 10 {
		operations = append(operations, operation("Create", fmt.Sprint(i)))
	}
	c.batch("200", "["+strings.Join(operations, ",")+"]")
	c.create("after", "k")
	etag, sizes := "", []int{}
	for {
		a := c.send("GET", items, "", with(feedHeader, "x-ms-max-item-count", "3", "If-None-Match", etag)...)
		if a.status == 304 {
			break
		}
		etag = a.header.Get("etag")
		sizes = append(sizes, len(a.ids(t)))
	}
	if !slices.Equal(sizes, []int{11, 1}) {
		t.Errorf("pages of %v, want the transaction whole", sizes)
	}
}

func TestFailedBatchChangesNothing(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	c.create("a", "k")
	lsn := c.feed("304", "If-None-Match", "*").header.Get("etag")
	for _, tt := range []struct {
		operation string
		want      int
	}{
		{operation("Create", "a"), 409},
		{operation("Replace", "nothing"), 404},
		{`{"operationType":"Read","id":"nothing"}`, 404},
		{`{"operationType":"Delete","id":"a","ifMatch":"\"stale\""}`, 412},
		{`{"operationType":"Create","resourceBody":{"id":"b","pk":"other"}}`, 400},
		{`{"operationType":"Create","resourceBody":{"pk":"k"}}`, 400},
		{`{"operationType":"Merge","id":"a"}`, 400},
		{`{"operationType":"Patch","id":"a","resourceBody":{"condition":"from c where c.pk = 'z'","operations":[{"op":"set","path":"/v","value":1}]}}`, 412},
	} {
		statuses, _ := c.batch("207", "["+operation("Create", "new")+","+tt.operation+","+operation("Upsert", "a")+"]")
		if !slices.Equal(statuses, []int{424, tt.want, 424}) {
			t.Errorf("%s: %v, want [424 %d 424]", tt.operation, statuses, tt.want)
		}
	}
	c.expect("404", "GET", items+"/new", "", pk("k")...)
	if now := c.feed("304", "If-None-Match", "*").header.Get("etag"); now != lsn {
		t.Errorf("failed batches moved the LSN from %s to %s", lsn, now)
	}
}

func TestBatchRefuses(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	c.batch("400", "[]")
	c.batch("400", "{}")
	c.batch("400", "["+strings.Repeat(operation("Upsert", "a")+",", 100)+operation("Upsert", "a")+"]")
	c.batch("400", "["+operation("Upsert", "a")+"]", "x-ms-documentdb-partitionkey", "no key")
}

// bulk sends operations of [bulkOperation] to a range.
func (c *client) bulk(want, rangeID, continueOnError string, operations ...string) (statuses []int) {
	c.t.Helper()
	a := c.expect(want, "POST", items, "["+strings.Join(operations, ",")+"]", "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "False",
		"x-ms-cosmos-batch-continue-on-error", continueOnError, "x-ms-documentdb-partitionkeyrangeid", rangeID)
	var results []batchResult
	if a.status < 400 && json.Unmarshal([]byte(a.body), &results) != nil {
		c.t.Fatalf("body %s", a.body)
	}
	for _, r := range results {
		statuses = append(statuses, r.StatusCode)
	}
	return statuses
}

func bulkOperation(kind, id, key string) string {
	return string(encode(map[string]any{"operationType": kind, "id": id, "partitionKey": string(encode([]string{key})), "resourceBody": map[string]string{"id": id, "pk": key}}))
}

// bulkLSNs sends bulk requests that write the same id under three keys, a read and a
// failure among them, and returns how far the LSN of each document is above the one
// before the request.
func bulkLSNs(t *testing.T, seed uint64, requests int) (steps []string) {
	c, _ := newItems(t, 1, &Options{BulkSeed: seed})
	for range requests {
		token := c.feed("304", "If-None-Match", "*").header.Get("etag")
		oldLSN, _ := strconv.Atoi(strings.Trim(token, `"`))
		c.bulk("207", "0", "True", bulkOperation("Read", "none", "a"), bulkOperation("Upsert", "x", "a"), bulkOperation("Create", "x", "a"),
			bulkOperation("Upsert", "x", "b"), bulkOperation("Upsert", "x", "c"))
		step := ""
		for _, d := range c.feed("200", "If-None-Match", token).documents(t) {
			step += fmt.Sprint(d["pk"], int(d["_lsn"].(float64))-oldLSN)
		}
		steps = append(steps, step)
	}
	return steps
}

// TestBulkSharesLSNsByDice: the operations of a bulk request have one LSN, several, or
// one each, never that of the write before the request, and stay in their order.
func TestBulkSharesLSNsByDice(t *testing.T) {
	steps := bulkLSNs(t, 7, 60)
	counts := map[string]int{}
	for _, step := range steps {
		counts[step]++
	}
	for _, step := range []string{"a1b1c1", "a1b1c2", "a1b2c2", "a1b2c3"} {
		if counts[step] == 0 {
			t.Errorf("no request gave the LSNs %s: %v", step, counts)
		}
		delete(counts, step)
	}
	if len(counts) > 0 {
		t.Errorf("further LSNs: %v", counts)
	}
	if repeated := bulkLSNs(t, 7, 60); !slices.Equal(repeated, steps) {
		t.Error("the same seed gives other LSNs")
	}
	if other := bulkLSNs(t, 8, 60); slices.Equal(other, steps) {
		t.Error("another seed gives the same LSNs")
	}
}

func TestBulk(t *testing.T) {
	c, _ := newItems(t, 2, nil)
	inRange := map[string]string{}
	for _, k := range keys(20) {
		session := c.create("old", k).header.Get("x-ms-session-token")
		inRange[session[:1]] = k
	}
	bulk, op := c.bulk, bulkOperation
	firstRange, secondRange := inRange["0"], inRange["1"]
	if got := bulk("200", "0", "True", op("Create", "a", firstRange), op("Delete", "old", firstRange)); !slices.Equal(got, []int{201, 204}) {
		t.Errorf("bulk: %v", got)
	}
	mixed := []string{op("Create", "a", firstRange), op("Create", "b", secondRange), op("Create", "c", firstRange), `{"operationType":"Read","id":"a"}`}
	if got := bulk("207", "0", "True", mixed...); !slices.Equal(got, []int{409, 410, 201, 400}) {
		t.Errorf("bulk that goes on: %v", got)
	}
	if got := bulk("207", "0", "False", mixed...); !slices.Equal(got, []int{409, 424, 424, 424}) {
		t.Errorf("bulk that stops: %v", got)
	}
	bulk("410/1002", "7", "True", mixed...)
}

func TestDeleteAndCreateInOneBatch(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	rid := c.create("a", "k").decode(t)["_rid"]
	c.batch("200", `[{"operationType":"Delete","id":"a"},`+operation("Create", "a")+`,{"operationType":"Delete","id":"a"},`+operation("Create", "a")+`,`+operation("Create", "b")+`,{"operationType":"Delete","id":"b"}]`)
	if got := c.expect("200", "GET", items+"/a", "", pk("k")...).decode(t)["_rid"]; got == rid {
		t.Error("the item that was created anew has the old _rid")
	}
	if got := c.feed("200").ids(t); !slices.Equal(got, []string{"a"}) {
		t.Errorf("feed has %v", got)
	}
	if got := ofValues(c.query(ask("SELECT VALUE c.id FROM c"))); !slices.Equal(got, []string{"a"}) {
		t.Errorf("query finds %v", got)
	}
}

func TestPatch(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	etag := c.expect("201", "POST", items, `{"id":"a","pk":"k","n":1.50,"list":[1]}`, pk("k")...).header.Get("etag")
	for _, tt := range []struct {
		name, want, body string
		header           []string
	}{
		{"object", "200", `{"operations":[{"op":"add","path":"/list/-","value":2}]}`, nil},
		{"array", "200", `[{"op":"incr","path":"/n","value":1}]`, nil},
		{"condition met", "200", `{"condition":"from c where c.n > 1","operations":[{"op":"set","path":"/x","value":true}]}`, nil},
		{"condition failed", "412/1110", `{"condition":"from c where c.n > 100","operations":[{"op":"set","path":"/x","value":true}]}`, nil},
		{"condition malformed", "400", `{"condition":"c.n > 100","operations":[{"op":"set","path":"/x","value":true}]}`, nil},
		{"stale etag", "412/", `[{"op":"set","path":"/x","value":true}]`, []string{"If-Match", etag}},
		{"partition key", "400", `[{"op":"set","path":"/pk","value":"z"}]`, nil},
		{"id", "400", `[{"op":"set","path":"/id","value":"z"}]`, nil},
		{"nothing", "400", `[]`, nil},
		{"path that is not there", "400", `[{"op":"remove","path":"/none"}]`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.t = t
			c.expect(tt.want, "PATCH", items+"/a", tt.body, with(pk("k"), tt.header...)...)
		})
	}
	c.t = t
	c.expect("404", "PATCH", items+"/none", `[{"op":"set","path":"/x","value":true}]`, pk("k")...)
	if got := c.expect("200", "GET", items+"/a", "", pk("k")...).body; !strings.HasPrefix(got, `{"id":"a","pk":"k","n":2.5,"list":[1,2],"_rid":`) || !strings.Contains(got, `"_attachments":"attachments/","x":true,"_ts":`) {
		t.Errorf("patched to %s", got)
	}
}
