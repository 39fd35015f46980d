package emulator

import (
	"encoding/json"
	"strconv"
)

// wireFormat is the format of the change feed in which each change has an
// envelope (ChangeFeedWireFormatVersions in azure-cosmos-dotnet-v3).
const wireFormat = "2021-09-15"

// versionPosition reads the start of the feed in all-versions mode: now, or an etag.
// It fails if the log no longer reaches back to the etag.
func (c *call) versionPosition(o *container, req *feedRequest) error {
	etag := c.header.Get("If-None-Match")
	switch {
	case !req.envelopes:
		return badRequest("All versions and deletes come in the wire format %s only: send it as x-ms-cosmos-changefeed-wire-format-version.", wireFormat)
	case o.retention == 0:
		return badRequest("Container %q keeps no versions: give it a changeFeedPolicy such as {\"retentionDuration\": 10}, in minutes.", o.Name)
	case o.merged():
		return badRequest("All versions and deletes are not supported for container %q: ranges of it were merged.", o.Name)
	case c.header.Get("If-Modified-Since") != "":
		return badRequest("All versions and deletes cannot be read from a start time: send If-None-Match with * or an etag, and no If-Modified-Since.")
	case etag == "":
		return badRequest("FullFidelity Change Feed must have valid If-None-Match header: all versions and deletes are read from now (*) or an etag, and not from the beginning.")
	case etag == "*":
		req.now = true
		return nil
	}
	if err := req.resume(etag); err != nil {
		return err
	}
	if trimmed := req.partition.versions.trimmed; req.after < trimmed {
		return badRequest("The If-None-Match %s is older than what partition key range %q keeps: the changes up to LSN %d are gone, after a retention of %v or because they are older than the change feed policy. Start from now.", etag, req.partition.ID, trimmed, o.retention)
	}
	return nil
}

// latest is a document in an envelope. In latest-version mode the metadata has the
// position and time of a change, but not its operation (ChangeFeedMetadata in
// azure-sdk-for-rust).
type latest struct{ *document }

func (l latest) appendTo(b []byte, form feedForm) []byte {
	b = l.document.appendTo(append(b, `{"current":`...), form)
	b = strconv.AppendInt(append(b, `,"metadata":{"lsn":`...), l.lsn, 10)
	b = strconv.AppendInt(append(b, `,"crts":`...), l.modified, 10)
	return append(b, '}', '}')
}

func (v *version) position() int64 { return v.lsn }
func (v *version) subject() *item  { return v.item() }
func (v *version) written() int64  { return v.time }

func (v *version) size() (n int) {
	for _, image := range []*document{v.previous, v.current} {
		if image != nil {
			n += len(image.body)
		}
	}
	return n
}

// versionMetadata is ChangeFeedMetadata of azure-cosmos-dotnet-v3.
type versionMetadata struct {
	Operation    string         `json:"operationType"`
	LSN          int64          `json:"lsn"`
	Time         int64          `json:"crts"`
	PreviousLSN  int64          `json:"previousImageLSN,omitempty"`
	Expired      *bool          `json:"timeToLiveExpired,omitempty"` // of deletes, as the rest
	ID           string         `json:"id,omitempty"`
	PartitionKey map[string]any `json:"partitionKey,omitempty"`
}

// appendTo appends the envelope of v. If v is a delete, its current is empty, and
// its metadata has the id and partition key of the item.
func (v *version) appendTo(b []byte, form feedForm) []byte {
	m := versionMetadata{Operation: "create", LSN: v.lsn, Time: v.time}
	b = append(b, `{"current":`...)
	if v.current != nil {
		b = append(b, v.current.body...)
	} else {
		b = append(b, '{', '}')
	}
	if v.previous != nil {
		m.Operation, m.PreviousLSN = "replace", v.previous.lsn
	}
	if v.previous != nil && form.previous.has(v.current == nil) {
		b = append(append(b, `,"previous":`...), v.previous.body...)
	}
	if v.current == nil {
		m.Operation, m.Expired, m.ID, m.PartitionKey = "delete", &v.expired, v.previous.item.id(), form.keyObject(v.previous.item.key())
	}
	b = append(append(b, `,"metadata":`...), encode(m)...)
	return append(b, '}')
}

// feedForm is the form of the container's changes. The caller holds o.mu.
func (o *container) feedForm() feedForm {
	form := feedForm{key: o.keyDefinition, previous: o.previous}
	if o.platform.options.PreviousImages {
		form.previous = previousOfReplaces | previousOfDeletes
	}
	return form
}

// keyObject is the part of a document that makes its canonical partition key.
func (f feedForm) keyObject(key string) map[string]any {
	var values []json.RawMessage
	_ = json.Unmarshal([]byte(key), &values) // the account has written it
	object := map[string]any{}
	for index, names := range f.key.Segments() {
		if string(values[index]) == "{}" {
			continue // undefined
		}
		inner := object
		for _, name := range names[:len(names)-1] {
			if _, exists := inner[name].(map[string]any); !exists {
				inner[name] = map[string]any{}
			}
			inner = inner[name].(map[string]any)
		}
		inner[names[len(names)-1]] = values[index]
	}
	return object
}
