package emulator

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"unicode/utf8"

	"halley/trigger/emulator/epk"
	"halley/trigger/emulator/jsonform"
)

// maxDocument is the service's limit on one item, in bytes,
// https://learn.microsoft.com/azure/cosmos-db/concepts-limits.
const maxDocument = 2 << 20

// maxID is the service's limit on the length of an id.
const maxID = 1023

// maxNesting is how many objects and arrays of an item may lie in each other, the
// item itself included. Clients read pages with a limit of their own, such as 10,000
// in encoding/json: a document just below it could be stored and never be read.
// The service documents 128 levels (concepts-limits), and stores no more
// (https://github.com/Azure/azure-cosmos-dotnet-v3/pull/1387).
const maxNesting = 128

// nesting is how many objects and arrays of a JSON text lie in each other.
func nesting(b []byte) int {
	open, deepest, quoted := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch {
		case quoted && b[i] == '\\':
			i++
		case b[i] == '"':
			quoted = !quoted
		case quoted:
		case b[i] == '{' || b[i] == '[':
			open++
			deepest = max(deepest, open)
		case b[i] == '}' || b[i] == ']':
			open--
		}
	}
	return deepest
}

// checkNesting fails in the words of the service, as
// https://github.com/microsoft/botbuilder-dotnet/issues/4755 quotes them.
func checkNesting(body []byte) error {
	if n := nesting(body); n > maxNesting {
		return badRequest("The request payload is invalid. Ensure to provide a valid request payload: it nests %d levels deep, at most %d are allowed.", n, maxNesting)
	}
	return nil
}

// systemProperties are set by the account, which drops them if a client sends them.
var systemProperties = map[string]bool{"_rid": true, "_self": true, "_etag": true, "_attachments": true, "_ts": true, "_lsn": true}

// draft is a document as a client sent it, checked and ready to be stored.
type draft struct {
	open       []byte // the JSON object without insignificant space, system properties and its last brace
	added      []byte // further properties, each after a comma, for between _attachments and _ts
	id         string
	key        epk.Key
	ttl        int64 // seconds; 0 = the container's default, -1 = never
	properties int   // at the top level
}

// invalidPayload is the answer to a document that the service cannot store.
func invalidPayload() *failure {
	return badRequest("The request payload is invalid. Ensure to provide a valid request payload.")
}

// parseDraft checks body and reads its id, partition key and ttl. It fails if the
// service would refuse the document. The order of properties stays as it was sent, and
// numbers get the service's form.
func parseDraft(body []byte, definition epk.Definition) (draft, error) {
	return parseDraftOf(body, definition, false)
}

// parseDraftOf is parseDraft, also for a document that a patch has changed: it leaves the
// properties after _attachments there.
func parseDraftOf(body []byte, definition epk.Definition, patched bool) (draft, error) {
	if len(body) > maxDocument {
		return draft{}, tooLarge()
	}
	if err := checkNesting(body); err != nil {
		return draft{}, err
	}
	var compact bytes.Buffer
	compact.Grow(len(body))
	if err := json.Compact(&compact, body); err != nil {
		return draft{}, invalidPayload()
	}
	if compact.Bytes()[0] != '{' || !utf8.Valid(body) {
		return draft{}, invalidPayload()
	}
	object, err := jsonform.Stored(compact.Bytes())
	if err != nil {
		return draft{}, invalidPayload()
	}
	d, err := readDraft(object, patched)
	if err != nil {
		return draft{}, err
	}
	if d.key, err = definition.Extract(object); err != nil {
		return draft{}, badRequest("The document has no usable partition key: %v.", err)
	}
	return d, nil
}

func readDraft(object []byte, patched bool) (draft, error) {
	d := draft{open: append(make([]byte, 0, len(object)), '{')}
	var id []byte
	late := false
	for name, property := range members(object) {
		if systemProperties[name] {
			late = late || patched && name == "_attachments"
			continue
		}
		value := property[len(property)-valueLen(property):]
		switch name {
		case "id":
			id = value
		case "ttl":
			ttl, err := parseTTL(value)
			if err != nil {
				return draft{}, err
			}
			d.ttl = ttl
		}
		d.properties++
		if late {
			d.added = append(append(d.added, ','), property...)
			continue
		}
		if len(d.open) > 1 {
			d.open = append(d.open, ',')
		}
		d.open = append(d.open, property...)
	}
	return d, d.setID(id)
}

func missingID() *failure {
	return badRequest("The input content is invalid because the required properties - 'id; ' - are missing. Learn more: https://aka.ms/CosmosDB/sql/errors/missing-id")
}

// tooLarge is the answer of the gateway to a request or document above its limit.
func tooLarge() *failure {
	return fail(http.StatusRequestEntityTooLarge, 0, "%s", errorList("Request size is too large")).byGateway()
}

func (d *draft) setID(raw []byte) error {
	if raw == nil {
		return missingID()
	}
	if err := json.Unmarshal(raw, &d.id); err != nil || d.id == "" || len(d.id) > maxID {
		return badRequest("The document must have an \"id\" that is a string of 1 to %d bytes.", maxID)
	}
	return nil
}

func parseTTL(raw []byte) (int64, error) {
	if string(raw) == "null" {
		return 0, nil
	}
	ttl, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || ttl == 0 || ttl < -1 || ttl > math.MaxInt32 {
		return 0, badRequest("The input ttl '%s' is invalid. Ensure to provide a nonzero positive integer, or -1 which means never expire.", raw)
	}
	return ttl, nil
}

// members yields name and text ("name":value) of each property of a compact JSON
// object.
func members(object []byte) func(yield func(string, []byte) bool) {
	return func(yield func(string, []byte) bool) {
		for i := 1; i < len(object)-1; {
			start := i
			colon := i + stringLen(object[i:])
			i = colon + 1
			i += skipValue(object[i:])
			if !yield(propertyName(object[start:colon]), object[start:i]) {
				return
			}
			i++ // the comma
		}
	}
}

func propertyName(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var name string
	_ = json.Unmarshal(quoted, &name) // json.Compact has checked it
	return name
}

// valueLen is the length of the value in "name":value.
func valueLen(property []byte) int { return len(property) - stringLen(property) - 1 }

// stringLen is the length of the JSON string at the start of b.
func stringLen(b []byte) int {
	for i := 1; ; i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// skipValue is the length of the JSON value at the start of b, which is followed
// by a comma or a brace.
func skipValue(b []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch b[i] {
		case '"':
			i += stringLen(b[i:]) - 1
		case '{', '[':
			depth++
		case ',':
			if depth == 0 {
				return i
			}
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
}

// document is one version of an item. When it is published, only superseded may
// still change, under the lock of its container.
type document struct {
	item       *item
	body       []byte // complete, as it is read
	lsn        int64
	sequence   uint64 // order of writes in the container
	modified   int64  // _ts
	expires    int64  // seconds since 1970; 0 = never
	ttl        int32  // as in draft
	properties int32
	added      int32 // length of draft.added
	superseded bool
}

// etagSize is the length of an etag without its quotation marks.
const etagSize = 36

// afterETag is what follows the etag in a document's text.
var afterETag = []byte(`\"","_attachments":`)

// etag is the document's etag, from its text: a copy would take as much memory as many
// a document. Properties that a patch added may have objects with the same names.
func (d *document) etag() string {
	end := bytes.LastIndex(d.body[:len(d.body)-int(d.added)], afterETag)
	return `"` + string(d.body[end-etagSize:end]) + `"`
}

func (d *document) position() int64 { return d.lsn }
func (d *document) gone() bool      { return d.superseded }

// item is an id within a partition key; documents are its versions.
type item struct {
	text    string // epk and identity: one string takes less memory than four
	epkSize int32
	keySize int32
	seq     uint64 // order of creation in the container
	current *document
}

func newItem(key, id, epk string, seq uint64) *item {
	return &item{text: epk + identity(key, id), epkSize: int32(len(epk)), keySize: int32(len(key)), seq: seq}
}

// name is the item's identity.
func (i *item) name() string { return i.text[i.epkSize:] }

// epk is the item's effective partition key.
func (i *item) epk() string { return i.text[:i.epkSize] }

// key is the item's canonical partition key.
func (i *item) key() string { return i.text[i.epkSize : i.epkSize+i.keySize] }

func (i *item) id() string { return i.text[i.epkSize+i.keySize+1:] }

func (i *item) position() int64 { return int64(i.seq) }
func (i *item) gone() bool      { return i.current == nil }

// identity is the name of an item in its container.
func identity(key, id string) string { return key + "\x00" + id }

// finish appends the system properties to the draft, and those that a patch added to
// their place (recorded answers of a hosted account, October 2026).
func (d draft) finish(rid, containerPath, etag string, modified int64) []byte {
	b := make([]byte, 0, len(d.open)+len(d.added)+len(containerPath)+2*len(rid)+len(etag)+96)
	b = append(append(b, d.open...), `,"_rid":"`...)
	b = append(append(b, rid...), `","_self":"`...)
	b = append(append(b, containerPath...), "docs/"...)
	b = append(append(b, rid...), `/","_etag":"\"`...)
	b = append(append(b, etag[1:len(etag)-1]...), `\"","_attachments":"attachments/"`...)
	b = append(append(b, d.added...), `,"_ts":`...)
	return append(strconv.AppendInt(b, modified, 10), '}')
}

func (d *document) subject() *item { return d.item }
func (d *document) written() int64 { return d.modified }
func (d *document) size() int      { return len(d.body) }

// appendTo appends the document as the change feed shows it, with its _lsn.
func (d *document) appendTo(b []byte, _ feedForm) []byte {
	b = append(append(b, d.body[:len(d.body)-1]...), `,"_lsn":`...)
	return append(strconv.AppendInt(b, d.lsn, 10), '}')
}
