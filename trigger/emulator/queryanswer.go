package emulator

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"halley/trigger/emulator/sql"
)

// Charges of a page of a query, which agree with recorded answers of a hosted account,
// October 2026, within ten percent. An index finds the documents, so that a count costs
// the same for 500 and for 2,500 of them.
const (
	queryUnits  = 2.25
	filterUnits = 0.57  // of a condition, an aggregate or a partition key
	resultUnits = 0.015 // of each result, and of each kilobyte
)

// maxContinuation bounds the continuation of a query, which holds values of ORDER BY:
// clients send it back in a header, see maxHeader.
const maxContinuation = 32 << 10

// noIndexes is the answer to a request for index metrics: nothing is indexed here.
const noIndexes = `{"UtilizedSingleIndexes":[],"PotentialSingleIndexes":[],"UtilizedCompositeIndexes":[],"PotentialCompositeIndexes":[]}`

// finishQuery makes a page the answer.
func (c *call) finishQuery(s *scan, found results, properties sql.Properties) (*response, error) {
	r := reply(http.StatusOK, envelope(s.container.rid, "Documents", found.values))
	r.set("x-ms-item-count", strconv.Itoa(len(found.values)))
	units := queryUnits + resultUnits*float64(len(found.values)+found.size/1024)
	if !properties.Constant && (properties.Filtered || properties.Aggregates != nil || s.prefix) {
		units += filterUnits
	}
	_, err := c.locked(s.container, func() (*response, error) {
		partitions, err := s.partitions()
		if err != nil {
			return nil, err
		}
		sessions := make([]string, len(partitions))
		for i, p := range partitions {
			p.budget.spend(units / float64(len(partitions)))
			sessions[i] = p.session()
		}
		r.stamp(partitions[0].replica(), false)
		r.set("x-ms-session-token", strings.Join(sessions, ","))
		return nil, nil
	})
	r.charge(units)
	s.container.name(r)
	if found.next != nil {
		token := escapeASCII(encode(found.next))
		if len(token) > maxContinuation {
			return nil, badRequest("The query cannot be continued: its ORDER BY values make a continuation of %d bytes, at most %d are allowed.", len(token), maxContinuation)
		}
		r.set("x-ms-continuation", string(token))
	}
	if strings.EqualFold(c.header.Get("X-Ms-Documentdb-Populatequerymetrics"), "true") {
		r.set("x-ms-documentdb-query-metrics", s.metrics(found))
	}
	if strings.EqualFold(c.header.Get("X-Ms-Cosmos-Populateindexmetrics"), "true") {
		r.set("x-ms-cosmos-index-utilization", base64.StdEncoding.EncodeToString([]byte(noIndexes)))
	}
	return r, err
}

// escapeASCII escapes the characters of JSON text that are not ASCII: Node.js and
// others read headers as Latin-1.
func escapeASCII(text []byte) []byte {
	escaped := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if r < utf8.RuneSelf {
			escaped = append(escaped, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, unit)
		}
	}
	return escaped
}
