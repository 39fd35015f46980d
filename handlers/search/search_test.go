package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

func TestContent(t *testing.T) {
	const document = `{"id":"1","name":"a","price":2,"_ts":1,"_etag":"e","_rid":"r","_self":"s","_lsn":1,"_attachments":"","_halley":{}}`
	for fields, want := range map[string]string{"": "id name price", "price": "id price", "price,none": "id price"} {
		var list []string
		if fields != "" {
			list = strings.Split(fields, ",")
		}
		content, err := Content(json.RawMessage(document), list)
		if got := strings.Join(slices.Sorted(maps.Keys(content)), " "); err != nil || got != want {
			t.Errorf("fields %q: %q, %v", fields, got, err)
		}
	}
	for _, bad := range []string{`[]`, `null`, `"a"`, `{`} {
		if _, err := Content(json.RawMessage(bad), nil); err == nil {
			t.Errorf("%s has content", bad)
		}
	}
}

func TestDocumentKeyTellsPartitionsApart(t *testing.T) {
	one, other := triggertest.Upsert(`{"id":"1"}`, "a"), triggertest.Delete("1", "b")
	if got := DocumentKey(one) + " " + DocumentKey(other); got != `["a"]/1 ["b"]/1` {
		t.Error(got)
	}
	if Deleted(one) || !Deleted(other) || !Deleted(trigger.Change{Operation: cosmos.OperationExpire}) {
		t.Error("deletes are not told apart")
	}
}

func TestCommandPrintsHits(t *testing.T) {
	var closed int
	c := NewCommand(func(_ context.Context, function string) (Query, func() error, error) {
		if function != "catalogue" {
			return nil, nil, errors.New("no such function")
		}
		return func(_ context.Context, text string, limit int) ([]Hit, error) {
			return []Hit{{ID: text, Score: float64(limit), Document: json.RawMessage(`{}`)}}, nil
		}, func() error { closed++; return nil }, nil
	})
	var out bytes.Buffer
	run := func(args ...string) error {
		out.Reset()
		c.SetArgs(args)
		c.SetOut(&out)
		c.SetErr(&out)
		return c.ExecuteContext(t.Context())
	}
	if err := run("tea", "--function", "catalogue", "--limit", "3"); err != nil || !strings.Contains(out.String(), `3.000  "tea"  "{}"`) || closed != 1 {
		t.Errorf("%v: %s", err, out.String())
	}
	if err := run("tea", "--function", "other"); err == nil {
		t.Error("another function is found")
	}
	if err := run("tea", "--function", "catalogue", "--limit", "0"); err == nil {
		t.Error("limit 0 is accepted")
	}
	if err := run("tea", "--function", "catalogue", "--limit", "1", "--json"); err != nil || !strings.Contains(out.String(), `[{"id":"tea"`) {
		t.Errorf("%v: %s", err, out.String())
	}
}
