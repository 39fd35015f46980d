package emulator

import (
	"net/http"
	"strconv"
)

// response is one answer. Header names are in lower case, as the service sends
// them: some clients keep headers in case-sensitive maps.
type response struct {
	status int
	header []field
	body   []byte
}

type field struct{ name, value string }

func (r *response) set(name, value string) {
	for i, f := range r.header {
		if f.name == name {
			r.header[i].value = value
			return
		}
	}
	r.header = append(r.header, field{name, value})
}

func (r *response) get(name string) string {
	for _, f := range r.header {
		if f.name == name {
			return f.value
		}
	}
	return ""
}

func reply(status int, body []byte) *response { return &response{status: status, body: body} }

func (r *response) etag(tag string) *response {
	r.set("etag", tag)
	return r
}

// charge tells the request units that a call cost.
func (r *response) charge(units float64) *response {
	r.set("x-ms-request-charge", strconv.FormatFloat(units, 'f', 2, 64))
	return r
}

// envelope is the body of every list: {"_rid":…,"Documents":[…],"_count":n}.
func envelope(rid, name string, members [][]byte) []byte {
	size := len(rid) + len(name) + 48
	for _, m := range members {
		size += len(m) + 1
	}
	b := append(make([]byte, 0, size), `{"_rid":"`...)
	b = append(append(b, rid...), `","`...)
	b = append(append(b, name...), `":[`...)
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, m...)
	}
	b = append(b, `],"_count":`...)
	return append(strconv.AppendInt(b, int64(len(members)), 10), '}')
}

// masterUnits is the charge of a read of databases, users or offers, and of the lists of the
// master partition (recorded answers of a hosted account, October 2026).
const masterUnits = 2.0

// list answers a read of all resources of one kind.
func list(rid, name string, members [][]byte) *response {
	r := reply(http.StatusOK, envelope(rid, name, members))
	r.set("x-ms-item-count", strconv.Itoa(len(members)))
	return r.charge(masterUnits)
}
