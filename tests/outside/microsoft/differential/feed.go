package main

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// keyRange is a physical range.
type keyRange struct {
	id, least string
	parents   []any
}

// readRanges returns the ranges of the items by their first keys.
func (p *pair) readRanges() (lists [2][]keyRange, err error) {
	answers, err := p.both(func(*account) request {
		return request{http.MethodGet, "/dbs/" + database + "/colls/" + items + "/pkranges", nil, nil}
	})
	if err != nil {
		return lists, err
	}
	for i, a := range answers {
		for _, r := range a.list("PartitionKeyRanges") {
			id, _ := r["id"].(string)
			least, _ := r["minInclusive"].(string)
			parents, _ := r["parents"].([]any)
			lists[i] = append(lists[i], keyRange{id, least, parents})
		}
		slices.SortFunc(lists[i], func(a, b keyRange) int { return strings.Compare(a.least, b.least) })
	}
	if len(lists[0]) != len(lists[1]) {
		return lists, fmt.Errorf("%d and %d ranges", len(lists[0]), len(lists[1]))
	}
	return lists, nil
}

func (p *pair) noteBounds(lists [2][]keyRange) {
	for n := range lists[0] {
		if lists[0][n].least != lists[1][n].least {
			p.note("bounds of ranges", "bounds", "other bounds")
			return
		}
	}
}

// split splits a range of both accounts.
func (p *pair) split() error {
	if p.ranges >= 16 || p.dice.IntN(4) > 0 {
		return nil
	}
	lists, err := p.readRanges()
	if err != nil {
		return err
	}
	n := p.dice.IntN(len(lists[0]))
	p.sent++
	for i, a := range p.accounts {
		body := map[string]any{"database": database, "container": items, "range": lists[i][n].id}
		answer, err := a.send(request{http.MethodPost, "/_emulator/split", nil, mustEncode(body)})
		if err != nil {
			return err
		}
		if answer.status != http.StatusOK {
			return fmt.Errorf("split: %s: %s", answer.code(), answer.body)
		}
	}
	p.ranges++
	answers, err := p.both(func(a *account) request {
		id := lists[slices.Index(p.accounts[:], a)][n].id
		return request{http.MethodGet, docsPath(items), map[string]string{"A-Im": "Incremental Feed", "X-Ms-Documentdb-Partitionkeyrangeid": id}, nil}
	})
	if err == nil {
		p.compare("feed of a range that has split", answers)
	}
	return err
}

// readFeed reads all ranges to their ends, after the positions of the read before. A range
// that came from a split is read after the position of its parent.
func (p *pair) readFeed() error {
	lists, err := p.readRanges()
	if err != nil {
		return err
	}
	p.noteBounds(lists)
	most := strconv.Itoa([]int{1, 3, 100}[p.dice.IntN(3)])
	for n := range lists[0] {
		var served [2][]map[string]any
		for i, a := range p.accounts {
			if served[i], err = p.readRange(a, lists[i][n], most); err != nil {
				return err
			}
		}
		p.noteServed("feed of a range", served)
	}
	return nil
}

// noteServed compares what two feeds have served. Only the embedded one tells LSNs. The order
// of changes with one LSN, which are of one transaction, is each account's own.
func (p *pair) noteServed(name string, served [2][]map[string]any) {
	if len(served[0]) != len(served[1]) {
		p.note(name, "items", "another number of items")
		return
	}
	for i := 0; i < len(served[0]); {
		end := i + 1
		for end < len(served[0]) && served[0][end]["_lsn"] == served[0][i]["_lsn"] {
			end++
		}
		p.noteItems(name, served[0][i:end], served[1][i:end])
		i = end
	}
}

// noteItems compares items without the properties of the service, in any order.
func (p *pair) noteItems(name string, embedded, microsoft []map[string]any) {
	if !slices.Equal(contents(embedded), contents(microsoft)) {
		p.note(name, "items", "other items")
	}
}

// contents are items as text, without the properties of the service, in order.
func contents(list []map[string]any) []string {
	texts := make([]string, 0, len(list))
	for _, item := range list {
		kept := map[string]any{}
		for name, value := range item {
			if !strings.HasPrefix(name, "_") {
				kept[name] = value
			}
		}
		texts = append(texts, string(mustEncode(kept)))
	}
	slices.Sort(texts)
	return texts
}

// readRange reads a range of one account to its end.
func (p *pair) readRange(a *account, r keyRange, most string) (served []map[string]any, err error) {
	token := a.feed[r.id]
	for _, ancestor := range r.parents { // the nearest one is the last
		if id, ok := ancestor.(string); ok && a.feed[r.id] == "" && a.feed[id] != "" {
			token = a.feed[id]
		}
	}
	for range 1000 {
		header := map[string]string{"A-Im": "Incremental Feed", "X-Ms-Documentdb-Partitionkeyrangeid": r.id, "X-Ms-Max-Item-Count": most}
		if token != "" {
			header["If-None-Match"] = token
		}
		if a == p.accounts[0] {
			p.sent++
		}
		answer, err := a.send(request{http.MethodGet, docsPath(items), header, nil})
		if err != nil {
			return nil, err
		}
		token = answer.header.Get("Etag")
		a.feed[r.id] = token
		switch answer.status {
		case http.StatusOK:
			served = append(served, answer.list("Documents")...)
		case http.StatusNotModified:
			return served, nil
		default:
			return nil, fmt.Errorf("feed: %s: %s", answer.code(), answer.body)
		}
	}
	return nil, fmt.Errorf("the feed of range %s does not end", r.id)
}

// readNow reads the feed of a range from now: no change is new.
func (p *pair) readNow() error {
	lists, err := p.readRanges()
	if err != nil {
		return err
	}
	n := p.dice.IntN(len(lists[0]))
	answers, err := p.both(func(a *account) request {
		id := lists[slices.Index(p.accounts[:], a)][n].id
		return request{http.MethodGet, docsPath(items), map[string]string{"A-Im": "Incremental Feed", "X-Ms-Documentdb-Partitionkeyrangeid": id, "If-None-Match": "*"}, nil}
	})
	if err == nil {
		p.compare("feed from now", answers)
	}
	return err
}

var sessionLSN = regexp.MustCompile(`#(\d+)`)

// laterSession raises the first LSN of a token.
func laterSession(token string) string {
	isFirst := true
	return sessionLSN.ReplaceAllStringFunc(token, func(text string) string {
		if !isFirst {
			return text
		}
		isFirst = false
		lsn, _ := strconv.Atoi(text[1:])
		return "#" + strconv.Itoa(lsn+1_000_000)
	})
}
