package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// compare notes how two answers to one request differ: by their codes, else by their
// headers, else by their bodies.
func (p *pair) compare(name string, answers [2]*answer) (isSameCode bool) {
	if !p.note(name, answers[0].summary(), answers[1].summary()) {
		return answers[0].code() == answers[1].code()
	}
	group := name
	if answers[0].status >= http.StatusMultipleChoices { // such answers have the same headers for all requests
		group = "any, answered with " + answers[0].code()
	}
	for _, header := range []string{"Etag", "X-Ms-Session-Token", "X-Ms-Continuation", "X-Ms-Item-Count", "Lsn", "X-Ms-Request-Charge"} {
		p.note(group, has(answers[0], header), has(answers[1], header))
	}
	if answers[0].status < http.StatusBadRequest {
		for _, place := range bodyDifferences(answers[0].body, answers[1].body) {
			p.note(name, "body", "body, "+place)
		}
	}
	return true
}

// summary is the code of an answer, with that in the body of an error.
func (a *answer) summary() string {
	var body struct{ Code string }
	if a.status < http.StatusBadRequest || json.Unmarshal(a.body, &body) != nil || body.Code == "" {
		return a.code()
	}
	return a.code() + " " + body.Code
}

func has(a *answer, header string) string {
	name := strings.ToLower(header)
	if a.header.Get(header) == "" {
		return "no " + name
	}
	return name
}

// bodyDifferences names the places at which Microsoft's body is another one. Values of the
// system properties are not compared.
func bodyDifferences(embedded, microsoft []byte) []string {
	var values [2]any
	for i, body := range [][]byte{embedded, microsoft} {
		if len(body) == 0 {
			continue
		}
		if err := json.Unmarshal(body, &values[i]); err != nil {
			return []string{"which is not JSON"}
		}
	}
	return valueDifferences("", values[0], values[1])
}

// volatile are properties whose values are each account's own.
var volatile = []string{"_rid", "_self", "_etag", "_ts", "eTag", "requestCharge"}

func valueDifferences(place string, embedded, microsoft any) (places []string) {
	switch want := embedded.(type) {
	case map[string]any:
		if got, ok := microsoft.(map[string]any); ok {
			return objectDifferences(place, want, got)
		}
	case []any:
		if got, ok := microsoft.([]any); ok && len(got) == len(want) {
			for i := range want {
				places = append(places, valueDifferences(place+"[]", want[i], got[i])...)
			}
			return places
		}
	}
	if reflect.DeepEqual(embedded, microsoft) {
		return nil
	}
	return []string{fmt.Sprintf("%s is %s instead of %s", inBody(place), valueText(microsoft), valueText(embedded))}
}

func objectDifferences(place string, embedded, microsoft map[string]any) (places []string) {
	names := map[string]bool{}
	for _, object := range []map[string]any{embedded, microsoft} {
		for name := range object {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		want, isExpected := embedded[name]
		got, ok := microsoft[name]
		inside := place + "." + name
		switch {
		case !ok:
			places = append(places, "no "+inBody(inside))
		case !isExpected:
			places = append(places, "also "+inBody(inside))
		case !slices.Contains(volatile, name):
			places = append(places, valueDifferences(inside, want, got)...)
		}
	}
	return places
}

func inBody(place string) string { return strings.TrimPrefix(place, ".") }

func valueText(v any) string {
	if list, ok := v.([]any); ok {
		return fmt.Sprintf("a list of %d", len(list))
	}
	text, err := json.Marshal(v)
	if err != nil || len(text) > 40 {
		return fmt.Sprintf("another %T", v)
	}
	return string(text)
}
