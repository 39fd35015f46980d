// Package hosted replays exchanges that were recorded on a hosted Azure Cosmos DB account
// in October 2026, and compares the answers of another account with the recorded ones.
//
// The recorded account was in East US, in one region, with Session consistency, gateway
// 2.14.0 and one database of 400 RU/s. The requests here have the methods, paths and
// headers of the recorded ones and bodies of our own; a document's names and values do not
// matter. Requests between them that were not recorded make the states that the recorded
// answers need. A replay needs an account without the database "it".
package hosted

import (
	_ "embed"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

//go:embed exchanges.tsv
var table string

// Exchange is a request and its recorded answer.
type Exchange struct {
	// ID is the number of the recorded exchange; "" if the request only prepares others.
	ID     string
	Method string
	Path   string
	Name   string
	Header http.Header
	Body   string
	// Pause is a wait in place of a request; 0 for requests.
	Pause time.Duration
	// Want is the recorded answer. If ID is "", it has only a status; 0 is any.
	Want Answer
}

// Answer is the part of an answer that is compared.
type Answer struct {
	Status    int
	Substatus string // "" = the header is absent
	Charge    string // "" = the header is absent
	Items     string // x-ms-item-count; "" = the header is absent
	Session   string // session token; "" = the header is absent
	Message   string // first line of the error's message; may end in … where the record is cut
	Body      []byte
	Header    http.Header

	// Master says that the session token is one of the master partition, which answers
	// for metadata. Its LSNs are compared by their distance to the first one.
	Master bool
}

// Exchanges returns all exchanges in the order of the record.
func Exchanges() ([]Exchange, error) {
	var all []Exchange
	for number, line := range strings.Split(strings.TrimSpace(table), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		e, err := parseExchange(strings.Split(line, "\t"))
		if err != nil {
			return nil, fmt.Errorf("line %d of the recorded exchanges: %w", number+1, err)
		}
		all = append(all, e)
	}
	return all, nil
}

// columns of exchanges.tsv: exchange, method, path, name, headers, body, answer, charge,
// items, session, message. A "-" is an absent header of the answer.
const columns = 11

func parseExchange(cells []string) (Exchange, error) {
	if len(cells) != columns {
		return Exchange{}, fmt.Errorf("%d columns, want %d", len(cells), columns)
	}
	e := Exchange{ID: present(cells[0]), Method: cells[1], Path: cells[2], Name: cells[3], Header: http.Header{}}
	if e.Method == "WAIT" {
		var err error
		e.Pause, err = time.ParseDuration(cells[5])
		return e, err
	}
	for header := range strings.SplitSeq(cells[4], "; ") {
		if name, value, ok := strings.Cut(header, ": "); ok {
			e.Header.Set(name, value)
		}
	}
	e.Body = expandBody(cells[5])
	status, substatus, _ := strings.Cut(cells[6], "/")
	var err error
	e.Want.Status, err = strconv.Atoi(status)
	e.Want.Substatus, e.Want.Charge, e.Want.Items, e.Want.Message = substatus, present(cells[7]), present(cells[8]), cells[10]
	partition, token, _ := strings.Cut(cells[9], " ")
	e.Want.Master, e.Want.Session = partition == "master", token
	return e, err
}

func present(cell string) string {
	if cell == "-" {
		return ""
	}
	return cell
}

// expandBody writes out the bodies that the table abbreviates.
func expandBody(text string) string {
	if text == "{3 MiB}" {
		return `{"id":"large","pk":"a","s":"` + strings.Repeat("x", 3<<20) + `"}`
	}
	var key string
	var first int
	if _, err := fmt.Sscanf(text, "{100 creates: %s from %d}", &key, &first); err != nil {
		return text
	}
	operations := make([]string, 100)
	for i := range operations {
		operations[i] = fmt.Sprintf(`{"operationType":"Create","resourceBody":{"id":"%d","pk":%q,"n":%d}}`, first+i, key, i)
	}
	return "[" + strings.Join(operations, ",") + "]"
}
