package main

import (
	"fmt"
	"net/http"
	"net/url"
)

// step is a kind of requests to a pair of accounts.
type step[P any] struct {
	weight int
	run    func(P) error
}

var steps = []step[*pair]{
	{20, func(p *pair) error { return p.write(p.create) }},
	{10, func(p *pair) error { return p.write(p.upsert) }},
	{10, func(p *pair) error { return p.write(p.replace) }},
	{8, func(p *pair) error { return p.write(p.patch) }},
	{6, func(p *pair) error { return p.write(p.remove) }},
	{8, (*pair).batch},
	{10, (*pair).read},
	{4, (*pair).readSession},
	{3, (*pair).query},
	{4, (*pair).invalid},
	{4, (*pair).readFeed},
	{1, (*pair).readNow},
	{1, (*pair).split},
}

func docsPath(container string) string {
	return "/dbs/" + database + "/colls/" + container + "/docs"
}

func (d document) path() string { return docsPath(d.container) + "/" + url.PathEscape(d.id) }

// place is that of the key, which has a session.
func (d document) place() string { return d.container + " " + d.key }

func keyHeader(key string) map[string]string {
	return map[string]string{"X-Ms-Documentdb-Partitionkey": string(mustEncode([]string{key}))}
}

// anyDocument draws a place, which may have an item.
func (p *pair) anyDocument() document {
	container := items
	if p.dice.IntN(5) == 0 {
		container = uniques
	}
	ids := []string{"a", "b", "c", "Straße 7", "日本", "x+y%z"}
	return document{container, fmt.Sprint("key ", p.dice.IntN(12)), ids[p.dice.IntN(len(ids))]}
}

// content draws an item.
func (p *pair) content(d document) map[string]any {
	item := map[string]any{"id": d.id, "key": d.key, "n": p.dice.IntN(100)}
	if d.container == uniques {
		item["name"] = fmt.Sprint("name ", p.dice.IntN(12))
	}
	values := []any{nil, true, 0.5, -1e300, 9007199254740993, "é\u2028\n", []any{1, "two", nil}, map[string]any{"deep": []any{map[string]any{}}}}
	for i := range p.dice.IntN(4) {
		item[fmt.Sprint("p", i)] = values[p.dice.IntN(len(values))]
	}
	if p.dice.IntN(8) == 0 {
		item["ttl"] = 100_000 + p.dice.IntN(1000)
	}
	return item
}

// read reads an item, also if it has changed since a version.
func (p *pair) read() error {
	d := p.anyDocument()
	back := 0
	if versions := len(p.accounts[0].etags[d]); versions > 0 {
		back = min(p.dice.IntN(3), versions)
	}
	answers, err := p.both(func(a *account) request {
		header := keyHeader(d.key)
		if back > 0 {
			header["If-None-Match"] = a.etags[d][len(a.etags[d])-back]
		}
		return request{http.MethodGet, d.path(), header, nil}
	})
	if err == nil {
		p.compare("read", answers)
	}
	return err
}

// readSession reads an item with the session of its key, which may be a later one than the
// account has, or no session.
func (p *pair) readSession() error {
	d := p.anyDocument()
	if p.accounts[0].session[d.place()] == "" {
		return nil
	}
	draw := p.dice.IntN(4)
	name := "read in the session of a write"
	switch draw {
	case 0:
		name = "read in a later session"
	case 1:
		name = "read in a session of no form"
	}
	answers, err := p.both(func(a *account) request {
		header := keyHeader(d.key)
		header["X-Ms-Session-Token"] = a.session[d.place()]
		switch draw {
		case 0:
			header["X-Ms-Session-Token"] = laterSession(a.session[d.place()])
		case 1:
			header["X-Ms-Session-Token"] = "no session"
		}
		return request{http.MethodGet, d.path(), header, nil}
	})
	if err == nil {
		p.compare(name, answers)
	}
	return err
}

// query reads the items of a key with a prefix.
func (p *pair) query() error {
	d := p.anyDocument()
	query := map[string]any{
		"query":      "SELECT c.id, c.n FROM c WHERE STARTSWITH(c.id, @prefix)",
		"parameters": []any{map[string]any{"name": "@prefix", "value": string([]rune(d.id)[:1])}},
	}
	answers, err := p.both(func(*account) request {
		header := keyHeader(d.key)
		header["X-Ms-Documentdb-Isquery"], header["Content-Type"] = "True", "application/query+json"
		return request{http.MethodPost, docsPath(d.container), header, mustEncode(query)}
	})
	if err == nil && p.note("query of a key", answers[0].summary(), answers[1].summary()) {
		p.noteItems("query of a key", answers[0].list("Documents"), answers[1].list("Documents"))
	}
	return err
}
