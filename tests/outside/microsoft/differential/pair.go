package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
)

// pair are the two accounts: the embedded one, then Microsoft's.
type pair struct {
	dice     *rand.Rand
	accounts [2]*account
	ranges   int // of the container of items

	sent        int // requests to each account
	differences map[difference]*sighting
}

// difference is a kind of request that the accounts answer differently.
type difference struct{ request, embedded, microsoft string }

// sighting says how often a difference was seen, and after how many requests first.
type sighting struct{ count, first int }

// The containers. Names in the second one are unique within a key.
const (
	database   = "differential"
	items      = "items"
	uniques    = "uniques"
	throughput = "40000" // gives the embedded account four ranges, as Microsoft's has
)

// prepare creates the containers.
func (p *pair) prepare() error {
	creations := []request{
		{http.MethodPost, "/dbs", nil, mustEncode(map[string]any{"id": database})},
		containerRequest(map[string]any{"id": items}),
		containerRequest(map[string]any{"id": uniques, "uniqueKeyPolicy": map[string]any{"uniqueKeys": []any{map[string]any{"paths": []any{"/name"}}}}}),
	}
	for _, creation := range creations {
		answers, err := p.both(func(*account) request { return creation })
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.status != http.StatusCreated {
				return fmt.Errorf("%s %s: %s: %s", creation.method, creation.path, a.code(), a.body)
			}
		}
	}
	p.ranges = 4
	return nil
}

func containerRequest(definition map[string]any) request {
	definition["partitionKey"] = map[string]any{"paths": []any{"/key"}, "kind": "Hash", "version": 2}
	definition["defaultTtl"] = -1
	return request{http.MethodPost, "/dbs/" + database + "/colls", map[string]string{"X-Ms-Offer-Throughput": throughput}, mustEncode(definition)}
}

func mustEncode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // no value of this program has such a type
	}
	return text
}

// both sends a request to both accounts.
func (p *pair) both(build func(*account) request) (answers [2]*answer, err error) {
	p.sent++
	for i, a := range p.accounts {
		if answers[i], err = a.send(build(a)); err != nil {
			return answers, err
		}
	}
	return answers, nil
}

// step sends the requests of one step.
func (p *pair) step() error { return drawStep(p.dice, steps)(p) }

// drawStep draws a step by its weight.
func drawStep[P any](dice *rand.Rand, steps []step[P]) func(P) error {
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	n, i := dice.IntN(total), 0
	for n >= steps[i].weight {
		n -= steps[i].weight
		i++
	}
	return steps[i].run
}

// note notes answers that differ, and reports whether they are equal.
func (p *pair) note(request, embedded, microsoft string) bool {
	if embedded == microsoft {
		return true
	}
	d := difference{request, embedded, microsoft}
	if p.differences[d] == nil {
		p.differences[d] = &sighting{first: p.sent}
	}
	p.differences[d].count++
	return false
}

// report prints the differences.
func (p *pair) report(out io.Writer) {
	byName := func(a, b difference) int {
		return cmp.Or(cmp.Compare(a.request, b.request), cmp.Compare(a.embedded, b.embedded), cmp.Compare(a.microsoft, b.microsoft))
	}
	for _, d := range slices.SortedFunc(maps.Keys(p.differences), byName) {
		fmt.Fprintf(out, "%s\t%s\t%s\t%d\t%d\n", d.request, d.embedded, d.microsoft, p.differences[d].count, p.differences[d].first)
	}
}
