package cosmos_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

func TestTransactionIsAppliedAllOrNone(t *testing.T) {
	c, _ := newContainer(t, nil)
	ctx, pk := t.Context(), cosmos.NewPartitionKey("a")
	kept := must[cosmos.Response](t)(c.Create(ctx, pk, doc{"kept", "a", 1}))
	must[cosmos.Response](t)(c.Create(ctx, pk, doc{"gone", "a", 1}))

	var good cosmos.Transaction
	good.Create(doc{"new", "a", 2})
	good.Upsert(doc{"other", "a", 2})
	good.Replace("kept", doc{"kept", "a", 2}, kept.ETag)
	good.Delete("gone", "")
	resp, err := c.Commit(ctx, pk, &good)
	if err != nil || resp.Charge <= 0 || resp.Body != nil || good.Len() != 4 || good.Size() < 60 {
		t.Fatalf("%+v, %v; %d writes of %d bytes", resp, err, good.Len(), good.Size())
	}
	requireIDs(t, c, "kept", "new", "other")

	for name, test := range map[string]struct {
		fail  func(*cosmos.Transaction)
		is    func(error) bool
		write string
	}{
		"conflict":     {func(x *cosmos.Transaction) { x.Create(doc{"new", "a", 3}) }, cosmos.IsConflict, "write 2 of 2 (Create "},
		"precondition": {func(x *cosmos.Transaction) { x.Replace("kept", doc{"kept", "a", 3}, kept.ETag) }, cosmos.IsPreconditionFailed, "(Replace kept)"},
		"not found":    {func(x *cosmos.Transaction) { x.Delete("gone", "") }, cosmos.IsDocumentNotFound, "(Delete gone)"},
		"another key":  {func(x *cosmos.Transaction) { x.Upsert(doc{"new", "b", 3}) }, func(err error) bool { s, sub := cosmos.Status(err); return s == 400 && sub == 1001 }, "(Upsert )"},
		"not JSON":     {func(x *cosmos.Transaction) { x.Upsert(math.NaN()) }, func(error) bool { return true }, "document of write 2: json: unsupported value"},
		"too many": {func(x *cosmos.Transaction) {
			for range cosmos.MaxTransaction {
				x.Delete("kept", "")
			}
		}, func(error) bool { return true }, "it has 101 writes: 1 to 100 are possible"},
	} {
		t.Run(name, func(t *testing.T) {
			var bad cosmos.Transaction
			bad.Upsert(doc{"never", "a", 3})
			test.fail(&bad)
			if _, err := c.Commit(ctx, pk, &bad); err == nil || !test.is(err) || !strings.Contains(err.Error(), test.write) {
				t.Errorf("error is %v", err)
			}
			requireIDs(t, c, "kept", "new", "other")
		})
	}
	if _, err := c.Commit(ctx, pk, &cosmos.Transaction{}); err == nil {
		t.Error("an empty transaction is committed")
	}
}

// If the answer to a transaction is lost, the error says that it may be applied.
func TestTransactionWithoutAnswerIsUnknown(t *testing.T) {
	c, account := newContainer(t, nil)
	account.Inject(emulator.Fault{Method: "POST", Path: "/docs$", Drop: emulator.DropAfter, Count: 1})
	var x cosmos.Transaction
	x.Create(doc{"a", "a", 1})
	if _, err := c.Commit(t.Context(), cosmos.NewPartitionKey("a"), &x); !errors.Is(err, cosmos.ErrOutcomeUnknown) {
		t.Errorf("error is %v", err)
	}
	requireIDs(t, c, "a")
}

// requireIDs fails the test unless these documents exist.
func requireIDs(t *testing.T, c *cosmos.Container, want ...string) {
	t.Helper()
	var got []string
	for page, err := range c.Query(t.Context(), cosmos.Query{Text: "SELECT VALUE c.id FROM c"}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range page.Items {
			got = append(got, strings.Trim(string(id), `"`))
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("documents are %q, want %q", got, want)
	}
}
