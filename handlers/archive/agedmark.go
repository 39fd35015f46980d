package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
)

// markProperty is the property by which a document tells that it has got its ttl from an
// archive, by the names of archives.
const markProperty = "_halleyAged"

// markTolerance bounds the seconds between a mark and the write that sets it. A client may
// write a document that it has read with its mark: later than this, an equal document is
// archived as a version of its own.
const markTolerance = 5

// agedMark is the mark of one archive.
type agedMark struct {
	At     int64  `json:"at"`     // when it was written, on the service's clock in Unix seconds
	TTL    int64  `json:"ttl"`    // that was set
	Digest string `json:"digest"` // of the archived content
}

// content is a document without the properties of the service.
type content struct {
	properties map[string]json.RawMessage // without the marks
	marks      map[string]agedMark
}

// systemProperties are set by the service.
var systemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn", "_metadata"}

// mayBeMarked is a quick test, which most documents do not pass.
func mayBeMarked(document json.RawMessage) bool {
	return bytes.Contains(document, []byte(markProperty))
}

func parseContent(document json.RawMessage) (content, error) {
	var c content
	if err := json.Unmarshal(document, &c.properties); err != nil {
		return content{}, err
	}
	if c.properties == nil {
		return content{}, errors.New("the document is null")
	}
	_ = json.Unmarshal(c.properties[markProperty], &c.marks) // another form is no mark
	delete(c.properties, markProperty)
	for _, name := range systemProperties {
		delete(c.properties, name)
	}
	return c, nil
}

// digest is that of the content without its ttl. Values are compared as the service returns
// them; white space and the order of properties do not count.
func (c content) digest() string {
	compared := maps.Clone(c.properties)
	delete(compared, "ttl")
	text, err := json.Marshal(compared) // sorted by name, each value compact
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// isMarked reports whether the document has aged with this very content.
func (c content) isMarked(archive string) bool {
	mark, ok := c.marks[archive]
	return ok && c.hasTTL(mark.TTL) && mark.Digest == c.digest()
}

// hasOwnTTL reports whether the document has a ttl that no archive has set.
func (c content) hasOwnTTL() bool {
	if c.properties["ttl"] == nil {
		return false
	}
	for _, mark := range c.marks {
		if c.hasTTL(mark.TTL) {
			return false
		}
	}
	return true
}

func (c content) hasTTL(seconds int64) bool {
	var ttl int64
	return json.Unmarshal(c.properties["ttl"], &ttl) == nil && ttl == seconds
}

// aged returns the document with a ttl and the mark of an archive.
func (c content) aged(archive string, ttl, now int64) ([]byte, error) {
	marks := map[string]agedMark{}
	maps.Copy(marks, c.marks)
	marks[archive] = agedMark{At: now, TTL: ttl, Digest: c.digest()}
	written := map[string]any{}
	for name, value := range c.properties {
		written[name] = value
	}
	written["ttl"], written[markProperty] = ttl, marks
	return json.Marshal(written)
}

// nameInMarks names an archive in the marks of documents, so that an archive at another place
// gets every document.
func nameInMarks(place, prefix string) string {
	sum := sha256.Sum256([]byte(place + " " + prefix))
	return hex.EncodeToString(sum[:4])
}
