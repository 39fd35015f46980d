package emulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"halley/trigger/emulator/epk"
)

// Limits of a uniqueKeyPolicy, https://learn.microsoft.com/azure/cosmos-db/unique-keys.
const (
	maxUniqueKeys  = 10
	maxUniquePaths = 16
)

// uniqueKey is one constraint of a uniqueKeyPolicy: the property names of each of its
// paths. No two items of a logical partition have equal values at all of them. A
// missing value counts as null.
type uniqueKey [][]string

// parseUniqueKeys reads the uniqueKeyPolicy of a container, which may be missing.
func parseUniqueKeys(raw json.RawMessage) ([]uniqueKey, error) {
	if absent(raw) {
		return nil, nil
	}
	var policy struct {
		UniqueKeys []struct {
			Paths []string `json:"paths"`
		} `json:"uniqueKeys"`
	}
	if err := json.Unmarshal(raw, &policy); err != nil {
		return nil, badRequest("The uniqueKeyPolicy cannot be read: %v.", err)
	}
	if n := len(policy.UniqueKeys); n > maxUniqueKeys {
		return nil, badRequest("The uniqueKeyPolicy has %d unique keys, at most %d are allowed.", n, maxUniqueKeys)
	}
	keys := make([]uniqueKey, len(policy.UniqueKeys))
	for i, k := range policy.UniqueKeys {
		if n := len(k.Paths); n == 0 || n > maxUniquePaths {
			return nil, badRequest("A unique key has %d paths, it needs 1 to %d.", n, maxUniquePaths)
		}
		for _, path := range k.Paths {
			names, err := epk.SplitPath(path)
			if err != nil {
				return nil, badRequest("The uniqueKeyPolicy cannot be read: %v.", err)
			}
			keys[i] = append(keys[i], names)
		}
	}
	return keys, nil
}

// uniqueTexts returns a text for each unique key of the container. If the texts of two
// documents are equal, so are their values and their partition keys.
func (o *container) uniqueTexts(doc *document) []string {
	texts := make([]string, len(o.uniqueKeys))
	for i, key := range o.uniqueKeys {
		parts := []string{strconv.Itoa(i), doc.item.key()}
		for _, names := range key {
			parts = append(parts, valueText(doc.body, names))
		}
		texts[i] = strings.Join(parts, "\n") // JSON text has no line breaks of its own
	}
	return texts
}

// valueText returns the value that names lead to as canonical JSON text.
func valueText(value json.RawMessage, names []string) string {
	for _, name := range names {
		var properties map[string]json.RawMessage
		if json.Unmarshal(value, &properties) != nil {
			return "null"
		}
		value = properties[name]
	}
	var decoded any // null if the value is missing
	_ = json.Unmarshal(value, &decoded)
	return string(encode(decoded))
}

// checkUnique fails if another item has the values of doc at a unique key, either in
// the container or after the operations of the transaction so far.
func (t *transaction) checkUnique(doc *document) error {
	if len(t.container.uniqueKeys) == 0 {
		return nil
	}
	for i, text := range t.container.uniqueTexts(doc) {
		holder := t.container.unique[text]
		if holder != nil && t.staged[holder.id()] != nil { // its next version counts
			holder = nil
		}
		for id, ch := range t.staged {
			if id != doc.item.id() && ch.after != nil && t.container.uniqueTexts(ch.after)[i] == text {
				holder = ch.after.item
			}
		}
		if holder != nil && holder.id() != doc.item.id() {
			return fail(http.StatusConflict, 0, "Unique index constraint violation.")
		}
	}
	return nil
}

// reserveUnique makes doc the holder of its values.
func (o *container) reserveUnique(doc *document) {
	if len(o.uniqueKeys) == 0 {
		return
	}
	if o.unique == nil {
		o.unique = map[string]*item{}
	}
	for _, text := range o.uniqueTexts(doc) {
		o.unique[text] = doc.item
	}
}

// releaseUnique lets other items have the values of a document that is superseded.
func (o *container) releaseUnique(doc *document) {
	if len(o.uniqueKeys) == 0 {
		return
	}
	for _, text := range o.uniqueTexts(doc) {
		if o.unique[text] == doc.item {
			delete(o.unique, text)
		}
	}
}

func sameUniqueKeys(a, b []uniqueKey) bool {
	return slices.EqualFunc(a, b, func(a, b uniqueKey) bool { return slices.EqualFunc(a, b, slices.Equal[[]string]) })
}
