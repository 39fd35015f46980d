package main

import "net/http"

// invalidRequest is a request that an account refuses.
type invalidRequest struct {
	name  string
	build func(document) request
}

var invalidRequests = []invalidRequest{
	{"create of text that is not JSON", func(d document) request {
		return request{http.MethodPost, docsPath(d.container), keyHeader(d.key), []byte("{")}
	}},
	{"create of a list", func(d document) request {
		return request{http.MethodPost, docsPath(d.container), keyHeader(d.key), []byte("[]")}
	}},
	{"create without an id", func(d document) request {
		return request{http.MethodPost, docsPath(d.container), keyHeader(d.key), mustEncode(map[string]any{"key": d.key})}
	}},
	{"create of an id that is a number", func(d document) request {
		return request{http.MethodPost, docsPath(d.container), keyHeader(d.key), mustEncode(map[string]any{"id": 7, "key": d.key})}
	}},
	{"create with another key in the header", func(d document) request {
		return request{http.MethodPost, docsPath(d.container), keyHeader("another"), mustEncode(map[string]any{"id": d.id, "key": d.key})}
	}},
	{"replace with another id in the path", func(d document) request {
		return request{http.MethodPut, docsPath(d.container) + "/another", keyHeader(d.key), mustEncode(map[string]any{"id": d.id, "key": d.key})}
	}},
	{"create with a ttl of 0", func(d document) request {
		return request{http.MethodPost, docsPath(d.container), keyHeader("ttl"), mustEncode(map[string]any{"id": "ttl", "key": "ttl", "ttl": 0})}
	}},
	{"create with a ttl that is text", func(d document) request {
		return request{http.MethodPost, docsPath(d.container), keyHeader("ttl"), mustEncode(map[string]any{"id": "ttl", "key": "ttl", "ttl": "1"})}
	}},
	{"read without a key", func(d document) request {
		return request{http.MethodGet, d.path(), map[string]string{}, nil}
	}},
	{"read with a key that is not a list", func(d document) request {
		return request{http.MethodGet, d.path(), map[string]string{"X-Ms-Documentdb-Partitionkey": "key"}, nil}
	}},
	{"read in an absent container", func(d document) request {
		return request{http.MethodGet, docsPath("absent") + "/x", keyHeader(d.key), nil}
	}},
	{"batch without operations", func(d document) request {
		header := keyHeader(d.key)
		header["X-Ms-Cosmos-Is-Batch-Request"], header["X-Ms-Cosmos-Batch-Atomic"] = "True", "True"
		return request{http.MethodPost, docsPath(d.container), header, []byte("[]")}
	}},
	{"batch with another key in an item", func(d document) request {
		header := keyHeader("another")
		header["X-Ms-Cosmos-Is-Batch-Request"], header["X-Ms-Cosmos-Batch-Atomic"] = "True", "True"
		operation := map[string]any{"operationType": "Create", "resourceBody": map[string]any{"id": d.id, "key": d.key}}
		return request{http.MethodPost, docsPath(d.container), header, mustEncode([]any{operation})}
	}},
	{"patch without operations", func(d document) request {
		return request{http.MethodPatch, d.path(), keyHeader(d.key), []byte(`{"operations":[]}`)}
	}},
	{"feed of a range that never was", func(d document) request {
		return request{http.MethodGet, docsPath(d.container), map[string]string{"A-Im": "Incremental Feed", "X-Ms-Documentdb-Partitionkeyrangeid": "98765"}, nil}
	}},
	{"feed after a position of no form", func(d document) request {
		return request{http.MethodGet, docsPath(d.container), map[string]string{"A-Im": "Incremental Feed", "X-Ms-Documentdb-Partitionkeyrangeid": "1", "If-None-Match": "no position"}, nil}
	}},
}

// invalid sends an invalid request. If an account takes it, the item is deleted.
func (p *pair) invalid() error {
	d := p.anyDocument()
	chosen := invalidRequests[p.dice.IntN(len(invalidRequests))]
	answers, err := p.both(func(*account) request { return chosen.build(d) })
	if err != nil {
		return err
	}
	p.compare(chosen.name, answers)
	if answers[0].status < http.StatusBadRequest || answers[1].status < http.StatusBadRequest {
		for _, place := range []document{d, {d.container, "another", d.id}, {d.container, "ttl", "ttl"}} {
			if err := p.forget(place); err != nil {
				return err
			}
		}
	}
	return nil
}
