package feed

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"halley/trigger/cosmos"
)

// Change is one change of a page. Its bytes are those of the page.
type Change struct {
	cosmos.Item
	Key string // logical partition key, see [PartitionKey]; "" if the function does not need it
}

// Size is the number of bytes that the change takes up in a batch.
func (c *Change) Size() int {
	return len(c.Document) + len(c.Previous) + len(c.Item.PartitionKey)
}

// DocumentID is the id of the document that changed.
func (c *Change) DocumentID() string {
	if c.ID != "" {
		return c.ID
	}
	if value := c.IDPlace.In(c.Document); value != nil {
		return textOf(value)
	}
	if c.Document != nil {
		return DocumentID(c.Document)
	}
	return DocumentID(c.Previous)
}

// Name tells the change from all others of its range: its LSN, "/", and a hash of its
// logical partition key and its document's id. Owners of a range recognise a change by
// it. The hash has 64 bits: two of the 100 changes of a batch or bulk request, which may
// have one LSN, are named alike with a probability below 10^-15. keyPaths are those of the
// container; a change whose Key is known needs none.
func (c *Change) Name(keyPaths []string) string {
	h := c.OrderKey(keyPaths, true)
	if c.Operation != "" { // one transaction may create several versions of a document
		for _, image := range []string{string(c.Operation), string(c.Previous), string(c.Document)} {
			h = hashText(hashText(h, "/"+strconv.Itoa(len(image))+":"), image)
		}
	}
	return strconv.FormatInt(c.LSN, 10) + "/" + strconv.FormatUint(h, 36)
}

// NameLSN returns the LSN in a name, or 0 if it has none.
func NameLSN(name string) int64 {
	lsn, _, _ := strings.Cut(name, "/")
	n, _ := strconv.ParseInt(lsn, 10, 64)
	return n
}

// OrderKey is equal for changes whose order must be kept: those of one logical
// partition key, or with byID those of one document.
// keyPaths are those of the container.
func (c *Change) OrderKey(keyPaths []string, byID bool) uint64 {
	h := fnvOffset
	if value := c.KeyPlace.In(c.Document); c.Key == "" && isCanonical(value) { // as in PartitionKey, without a string
		h = hashText(hashText(hashText(h, "["), value), "]")
	} else {
		if c.Key == "" {
			c.Key = PartitionKey(c.Item, keyPaths)
		}
		h = hashText(h, c.Key)
	}
	if byID {
		h = hashText(h, c.DocumentID())
	}
	return h
}

// fnvOffset begins a hash, and hashText continues it: FNV-1a of 64 bits, without the
// allocations of hash/fnv.
const fnvOffset uint64 = 14695981039346656037

func hashText[T string | []byte](h uint64, text T) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

// DocumentID returns a document's id, or "" if it has none.
func DocumentID(document []byte) string { return textOf(cosmos.Property(document, "id")) }

// textOf decodes a value that is a string; any other one is "".
func textOf(value []byte) string {
	if len(value) > 1 && value[0] == '"' && isUnescaped(value[1:len(value)-1]) {
		return string(value[1 : len(value)-1])
	}
	var text string
	_ = json.Unmarshal(value, &text)
	return text
}

// Detach gives the change bytes of its own, so that it outlives its page.
func (c *Change) Detach() {
	c.Document, c.Previous = bytes.Clone(c.Document), bytes.Clone(c.Previous)
	c.Item.PartitionKey = bytes.Clone(c.Item.PartitionKey)
}
