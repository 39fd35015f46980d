package main

import "net/http"

// condition draws an If-Match of each account's own etags: none, that of the newest version
// or of an older one, or an etag that no version has.
func (p *pair) condition(d document) (set func(*account, map[string]string)) {
	draw, older := p.dice.IntN(6), p.dice.IntN(3)
	versions := len(p.accounts[0].etags[d])
	return func(a *account, header map[string]string) {
		switch etags := a.etags[d]; {
		case draw == 0 && versions > 0:
			header["If-Match"] = etags[versions-1]
		case draw == 1 && versions > older+1:
			header["If-Match"] = etags[versions-2-older]
		case draw == 2:
			header["If-Match"] = `"00000000-0000-0000-0000-000000000000"`
		}
	}
}

// writeRequest is a write to a place.
type writeRequest struct {
	name  string
	build func(*account) request
}

// write sends a write, and notes the etags and tokens of its answers.
func (p *pair) write(draw func(document) writeRequest) error {
	d := p.anyDocument()
	w := draw(d)
	answers, err := p.both(w.build)
	if err != nil {
		return err
	}
	if !p.compare(w.name, answers) {
		return p.forget(d)
	}
	p.noteWrite(d, answers)
	return nil
}

func (p *pair) noteWrite(d document, answers [2]*answer) {
	for i, a := range p.accounts {
		switch status := answers[i].status; {
		case status == http.StatusNoContent || status == http.StatusNotFound:
			delete(a.etags, d)
		case status < http.StatusBadRequest:
			a.etags[d] = append(a.etags[d], answers[i].header.Get("Etag"))
		}
		if token := answers[i].header.Get("X-Ms-Session-Token"); token != "" {
			a.session[d.place()] = token
		}
	}
}

// forget deletes an item about which the accounts disagree.
func (p *pair) forget(d document) error {
	_, err := p.both(func(a *account) request {
		delete(a.etags, d)
		return request{http.MethodDelete, d.path(), keyHeader(d.key), nil}
	})
	return err
}

func (p *pair) create(d document) writeRequest {
	body := mustEncode(p.content(d))
	return writeRequest{"create", func(*account) request {
		return request{http.MethodPost, docsPath(d.container), keyHeader(d.key), body}
	}}
}

func (p *pair) upsert(d document) writeRequest {
	body := mustEncode(p.content(d))
	set := p.condition(d)
	return writeRequest{"upsert", func(a *account) request {
		header := keyHeader(d.key)
		header["X-Ms-Documentdb-Is-Upsert"] = "True"
		set(a, header)
		return request{http.MethodPost, docsPath(d.container), header, body}
	}}
}

func (p *pair) replace(d document) writeRequest {
	body := mustEncode(p.content(d))
	set := p.condition(d)
	return writeRequest{"replace", func(a *account) request {
		header := keyHeader(d.key)
		set(a, header)
		return request{http.MethodPut, d.path(), header, body}
	}}
}

func (p *pair) remove(d document) writeRequest {
	set := p.condition(d)
	return writeRequest{"delete", func(a *account) request {
		header := keyHeader(d.key)
		set(a, header)
		return request{http.MethodDelete, d.path(), header, nil}
	}}
}

// patchOperation is one operation of a patch.
type patchOperation struct {
	name  string
	value map[string]any
}

var patchOperations = []patchOperation{
	{"set", map[string]any{"op": "set", "path": "/patched", "value": map[string]any{"x": 1}}},
	{"add", map[string]any{"op": "add", "path": "/added", "value": "v"}},
	{"incr", map[string]any{"op": "incr", "path": "/n", "value": 3}},
	{"incr of an absent property", map[string]any{"op": "incr", "path": "/counter", "value": 1}},
	{"remove of an absent property", map[string]any{"op": "remove", "path": "/absent"}},
	{"replace", map[string]any{"op": "replace", "path": "/n", "value": 5}},
	{"set of the id", map[string]any{"op": "set", "path": "/id", "value": "other"}},
	{"set of the key", map[string]any{"op": "set", "path": "/key", "value": "other"}},
}

func (p *pair) patch(d document) writeRequest {
	operation := patchOperations[p.dice.IntN(len(patchOperations))]
	body := map[string]any{"operations": []any{operation.value}}
	name := "patch: " + operation.name
	switch p.dice.IntN(8) {
	case 0:
		body["condition"] = "from c where c.n >= 0"
	case 1:
		body["condition"], name = "from c where c.n < 0", "patch under a condition that does not hold"
	}
	set := p.condition(d)
	return writeRequest{name, func(a *account) request {
		header := keyHeader(d.key)
		header["Content-Type"] = "application/json_patch+json"
		set(a, header)
		return request{http.MethodPatch, d.path(), header, mustEncode(body)}
	}}
}

// batch sends a transaction on one key.
func (p *pair) batch() error {
	first := p.anyDocument()
	var operations []any
	var places []document
	for range 1 + p.dice.IntN(4) {
		d := p.anyDocument()
		d.container, d.key = first.container, first.key
		places = append(places, d)
		kind := []string{"Create", "Upsert", "Replace", "Delete", "Read"}[p.dice.IntN(5)]
		operation := map[string]any{"operationType": kind}
		if kind != "Create" && kind != "Upsert" {
			operation["id"] = d.id
		}
		if kind != "Delete" && kind != "Read" {
			operation["resourceBody"] = p.content(d)
		}
		operations = append(operations, operation)
	}
	answers, err := p.both(func(*account) request {
		header := keyHeader(first.key)
		header["X-Ms-Cosmos-Is-Batch-Request"], header["X-Ms-Cosmos-Batch-Atomic"] = "True", "True"
		return request{http.MethodPost, docsPath(first.container), header, mustEncode(operations)}
	})
	if err != nil {
		return err
	}
	isSame := p.compare("batch", answers)
	for _, d := range places {
		if !isSame {
			err = p.forget(d)
		} else {
			err = p.observe(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// observe reads an item after a batch, whose results do not all have etags.
func (p *pair) observe(d document) error {
	answers, err := p.both(func(*account) request { return request{http.MethodGet, d.path(), keyHeader(d.key), nil} })
	if err != nil {
		return err
	}
	if !p.compare("read after a batch", answers) {
		return p.forget(d)
	}
	p.noteWrite(d, answers)
	return nil
}
