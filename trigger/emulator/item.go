package emulator

import (
	"net/http"
	"strconv"
	"strings"

	"halley/trigger/emulator/epk"
)

// maxKeyValue is the service's limit on a partition key value, in bytes,
// https://learn.microsoft.com/azure/cosmos-db/concepts-limits.
const maxKeyValue = 2048

func (c *call) dispatchItem() (*response, error) {
	switch {
	case c.target.id == "" && c.method == http.MethodGet && c.header.Get("A-Im") != "":
		return c.readFeed()
	case c.target.id == "" && c.method == http.MethodGet:
		return c.listItems()
	case c.target.id == "" && c.method == http.MethodPost:
		return c.postItems()
	case c.target.id == "":
		return nil, c.methodNotAllowed()
	}
	switch c.method {
	case http.MethodGet:
		return c.operate(func(t *transaction) (outcome, error) {
			if err := c.checkSession(t.partition); err != nil {
				return outcome{}, err
			}
			return t.read(c.target.id, c.header.Get("If-None-Match"))
		})
	case http.MethodDelete:
		return c.operate(func(t *transaction) (outcome, error) { return t.delete(c.target.id, c.header.Get("If-Match")) })
	case http.MethodPatch:
		return c.operate(func(t *transaction) (outcome, error) { return t.patch(c.target.id, c.body, c.header.Get("If-Match")) })
	case http.MethodPut:
		return c.write(func(t *transaction, d draft) (outcome, error) {
			return t.replace(c.target.id, d, c.header.Get("If-Match"))
		})
	}
	return nil, c.methodNotAllowed()
}

// postItems dispatches a POST to the items of a container: a query plan, a query, a
// batch, an upsert or a create.
func (c *call) postItems() (*response, error) {
	switch {
	case strings.EqualFold(c.header.Get("X-Ms-Cosmos-Is-Query-Plan-Request"), "true"):
		return c.planQuery()
	case c.isQuery():
		return c.queryItems()
	case strings.EqualFold(c.header.Get("X-Ms-Cosmos-Is-Batch-Request"), "true"):
		return c.batch()
	case strings.EqualFold(c.header.Get("X-Ms-Documentdb-Is-Upsert"), "true"):
		return c.write(func(t *transaction, d draft) (outcome, error) { return t.upsert(d, c.header.Get("If-Match")) })
	}
	return c.write(func(t *transaction, d draft) (outcome, error) { return t.create(d) })
}

// write runs an operation whose body is a document.
func (c *call) write(op func(*transaction, draft) (outcome, error)) (*response, error) {
	o, err := c.container()
	if err != nil {
		return nil, err
	}
	key, err := o.wholeKey(c.header.Get("X-Ms-Documentdb-Partitionkey"))
	if err != nil {
		return nil, c.refuse(o, err)
	}
	d, err := parseDraft(c.body, o.keyDefinition)
	if err != nil {
		return nil, c.refuse(o, err)
	}
	return c.operateOn(o, key, func(t *transaction) (outcome, error) { return op(t, d) })
}

// operate runs an operation that has no document.
func (c *call) operate(op func(*transaction) (outcome, error)) (*response, error) {
	o, err := c.container()
	if err != nil {
		return nil, err
	}
	key, err := o.wholeKey(c.header.Get("X-Ms-Documentdb-Partitionkey"))
	if err != nil {
		return nil, c.refuse(o, err)
	}
	return c.operateOn(o, key, op)
}

// operateOn runs one operation as a transaction of its own.
func (c *call) operateOn(o *container, key epk.Key, op func(*transaction) (outcome, error)) (*response, error) {
	return c.locked(o, func() (*response, error) {
		t, err := c.begin(o, key)
		if err != nil {
			return nil, err
		}
		out, err := op(t)
		if err != nil {
			c.reach(t.partition)
			t.partition.budget.spend(c.units(asFailure(err)))
			return nil, err
		}
		items := len(o.items)
		t.commit()
		return c.itemResponse(t, out, items), nil
	})
}

// wholeKey reads a partition key. It fails if a component is missing.
func (o *container) wholeKey(header string) (epk.Key, error) {
	if header == "" {
		return nil, fewerComponents()
	}
	key, err := epk.ParseKey(header)
	if err != nil {
		return nil, badRequest("The header x-ms-documentdb-partitionkey cannot be read: %v.", err).byGateway()
	}
	if n := key.Longest(); n > maxKeyValue {
		return nil, badRequest("The partition key has a value of %d bytes, at most %d are allowed.", n, maxKeyValue)
	}
	if len(key) < len(o.keyDefinition.Paths) {
		return nil, fewerComponents()
	}
	if len(key) > len(o.keyDefinition.Paths) {
		return nil, fail(http.StatusBadRequest, subPartitionKeyMismatch, "Partition key provided either doesn't correspond to definition in the collection or doesn't match partition key field values specified in the document: it has %d components, not %d.", len(key), len(o.keyDefinition.Paths))
	}
	return key, nil
}

func fewerComponents() *failure {
	f := fail(http.StatusBadRequest, subPartitionKeyMismatch, "The partition key supplied in x-ms-partitionkey header has fewer components than defined in the the collection.")
	f.free = true
	return f
}

// itemResponse is the answer to an operation in a container that had so many items before.
func (c *call) itemResponse(t *transaction, out outcome, items int) *response {
	t.partition.budget.spend(out.units)
	r := reply(out.status, nil).charge(out.units)
	if doc := out.document; doc != nil {
		r.etag(doc.etag())
		if !c.writes() {
			r.set("x-ms-item-lsn", strconv.FormatInt(doc.lsn, 10))
		}
		if out.status != http.StatusNotModified && (out.read || !c.minimal()) {
			r.body = doc.body
		}
	}
	t.container.name(r)
	r.set("x-ms-resource-quota", "documentSize=51200;documentsSize=52428800;documentsCount=-1;collectionSize=52428800;")
	r.set("x-ms-resource-usage", "documentSize=0;documentsSize=0;documentsCount="+strconv.Itoa(items)+";collectionSize=0;")
	r.stamp(t.partition.replica(), c.writes())
	return r
}

// minimal reports whether the client asked for writes to be answered without the
// document.
func (c *call) minimal() bool {
	return strings.EqualFold(strings.TrimSpace(c.header.Get("Prefer")), "return=minimal")
}
