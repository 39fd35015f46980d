package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

func (s *stage) source() *cosmos.Container {
	return s.Client().Container(triggertest.Database, triggertest.Container)
}

func (s *stage) verify(t testing.TB, opts VerifyOptions) *Verification {
	t.Helper()
	opts.Settle = -1
	v, err := s.Verify(t.Context(), s.source(), &opts)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVerifyFindsEachDifference(t *testing.T) {
	s := newStage(t, trigger.Function{}, func(document json.RawMessage) (json.RawMessage, error) {
		if textOf(cosmos.Property(document, "category")) == "none" {
			return nil, nil
		}
		return document, nil
	})
	for i := range 250 {
		s.Put(order{ID: fmt.Sprint("d", i), Customer: fmt.Sprint("c", i%7), Category: fmt.Sprint("k", i%5), Total: i})
	}
	s.Put(order{ID: "omitted", Customer: "c1", Category: "none"})
	s.Host(s.Handle).Drain()
	v := s.verify(t, VerifyOptions{})
	if !v.Equal() || v.Source != 251 || v.LeftOut != 1 || v.Target != 250 || v.Tombstones != 1 || time.Since(v.LastWrite) > time.Hour {
		t.Fatalf("after the copy: %+v", v)
	}

	must := func(_ cosmos.Response, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key := cosmos.NewPartitionKey
	s.Delete("d1", "c1")                                                               // latest-version mode does not show it
	s.Put(order{ID: "d2", Customer: "c2", Category: "k2", Total: -1})                  // not copied yet
	s.Put(order{ID: "new", Customer: "c2", Category: "k2"})                            // neither
	must(s.target.Delete(t.Context(), "d3", key("k3"), ""))                            // lost
	must(s.target.Create(t.Context(), key("k1"), order{ID: "theirs", Category: "k1"})) // of another writer
	must(s.target.Create(t.Context(), key("k0"), json.RawMessage(`{"id":"d4","category":"k0","customer":"c4",
		"_halley":{"ts":1,"lsn":1,"epoch":1,"key":"[\"c4\"]"}}`))) // late, at an old key
	v = s.verify(t, VerifyOptions{})
	var texts []string
	for _, d := range v.Differences {
		texts = append(texts, d.String())
	}
	want := []string{
		`document "d1", key ["c1"] in the source, key ["k1"] in the target: exists in the target only; latest-version mode shows no deletes`,
		`document "d2", key ["c2"] in the source, key ["k2"] in the target: property "total" differs`,
		`document "d3", key ["c3"] in the source, key ["k3"] in the target: is missing in the target`,
		`document "d4", key ["c4"] in the source, key ["k0"] in the target: a copy that should not exist: the document has moved, or is left out`,
		`document "new", key ["c2"] in the source, key ["k2"] in the target: is missing in the target`,
		`document "theirs", key ["k1"] in the target: was not written by the migration`,
	}
	if !slices.Equal(texts, want) {
		t.Errorf("differences:\n%s\nwant:\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
	if v := s.verify(t, VerifyOptions{MaxDifferences: 3}); v.Equal() || !v.More || len(v.Differences) == 0 {
		t.Errorf("more differences than wanted: %+v", v)
	}
}

// While a client writes and ranges split, several hosts copy and die. In the end the
// report says ready, and both containers are equal.
func TestMigrationWhileClientsWrite(t *testing.T) {
	s := newStage(t, trigger.Function{}, withTaxAtTop)
	random := rand.New(rand.NewPCG(1, 1))
	put := func(n int) {
		for range n {
			id := random.IntN(300)
			s.Put(order{ID: fmt.Sprint("d", id), Customer: fmt.Sprint("c", id%9), Category: fmt.Sprint("c", random.IntN(4)), Total: random.IntN(1000) * 10})
		}
	}
	put(400)
	var verifying sync.WaitGroup
	verifying.Go(func() { // a comparison at any time does not disturb
		if _, err := s.Verify(t.Context(), s.source(), &VerifyOptions{Settle: -1}); err != nil {
			t.Error(err)
		}
	})
	for range 4 {
		var calls atomic.Int64 // of several ranges
		var host *triggertest.Host
		host = s.Host(func(ctx context.Context, b trigger.Batch) error {
			if calls.Add(1) == 2 {
				put(20)
				s.Split(s.Ranges()[0])
				err := s.Handle(ctx, b)
				host.Kill()
				return err
			}
			return s.Handle(ctx, b)
		})
		host.Drain()
		put(50)
	}
	verifying.Wait()
	s.Host(s.Handle).Drain()
	s.Host(s.Handle).Drain()
	s.RequireDelivered()
	v := s.verify(t, VerifyOptions{})
	if !v.Equal() || v.Source < 200 || v.Source-v.LeftOut != v.Target {
		t.Errorf("verification %+v", v)
	}
	requireSame(t, s)
}

// requireSame compares both containers without the code of the migration.
func requireSame(t testing.TB, s *stage) {
	t.Helper()
	want, got := map[string]float64{}, map[string]float64{}
	for _, d := range s.Documents() {
		var o order
		if err := json.Unmarshal(d, &o); err != nil {
			t.Fatal(err)
		}
		if o.Category != "c3" {
			want[o.ID+"/"+o.Customer+"/"+o.Category] = float64(o.Total * 12 / 10)
		}
	}
	for _, d := range allDocuments(t, s.target) {
		var c struct {
			ID, Customer, Category string
			Gross                  float64
			Guard                  struct{ Deleted bool } `json:"_halley"`
		}
		if err := json.Unmarshal(d, &c); err != nil {
			t.Fatal(err)
		}
		if !c.Guard.Deleted {
			got[c.ID+"/"+c.Customer+"/"+c.Category] = c.Gross
		}
	}
	if fmt.Sprint(want) != fmt.Sprint(got) || len(want) == 0 {
		t.Errorf("target has %v, want %v", got, want)
	}
}

// withTaxAtTop is withTax with the category at the top.
func withTaxAtTop(document json.RawMessage) (json.RawMessage, error) {
	changed, err := withTax(document)
	if changed == nil || err != nil {
		return nil, err
	}
	var content map[string]any
	if err := json.Unmarshal(changed, &content); err != nil {
		return nil, err
	}
	content["category"] = content["by"].(map[string]any)["category"]
	return json.Marshal(content)
}
