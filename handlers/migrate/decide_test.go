package migrate

import (
	"fmt"
	"strings"
	"testing"

	"halley/handlers/position"
)

const source = `["ada"]`

// copyAt is a copy at a key; seconds is its position.
func copyAt(key string, seconds int64) *targetCopy {
	return &targetCopy{id: "1", key: newTargetKey([]any{key}), etag: "e", guard: &guard{Position: position.Position{Time: seconds}, Key: source}}
}

func tombAt(key string, seconds int64) *targetCopy {
	c := copyAt(key, seconds)
	c.guard.Deleted = true
	return c
}

func change(key string, seconds int64) *wanted {
	return &wanted{image: image{id: "1", key: newTargetKey([]any{key}), content: properties{"id": []byte(`"1"`)}}, source: source, at: position.Position{Time: seconds}}
}

func removal(seconds int64) *wanted {
	return &wanted{image: image{id: "1"}, source: source, at: position.Position{Time: seconds}}
}

func written(w *wanted) *wanted {
	w.written = true
	return w
}

func TestDecide(t *testing.T) {
	theirs, another := copyAt("b", 1), copyAt("b", 1)
	theirs.guard, another.guard.Key = nil, `["bob"]`
	for name, test := range map[string]struct {
		wanted *wanted
		copies []*targetCopy
		want   string
	}{
		"first copy":                        {change("b", 5), nil, "create@5"},
		"newer version":                     {change("b", 5), []*targetCopy{copyAt("b", 4)}, "replace b@5"},
		"older version":                     {change("b", 5), []*targetCopy{copyAt("b", 6)}, ""},
		"redelivery":                        {change("b", 5), []*targetCopy{copyAt("b", 5)}, "replace b@5"},
		"second look":                       {written(change("b", 5)), []*targetCopy{copyAt("b", 5)}, ""},
		"move":                              {change("b", 5), []*targetCopy{copyAt("a", 4)}, "create@5, bury a@5"},
		"move, redelivered":                 {change("b", 5), []*targetCopy{tombAt("a", 5), copyAt("b", 5)}, "replace b@5"},
		"move back":                         {change("a", 6), []*targetCopy{tombAt("a", 5), copyAt("b", 5)}, "replace a@6, bury b@6"},
		"late, at another key":              {change("a", 4), []*targetCopy{copyAt("b", 5)}, ""},
		"late, and a late copy exists":      {written(change("a", 4)), []*targetCopy{copyAt("a", 4), copyAt("b", 5)}, "bury a@5"},
		"a late copy of a former owner":     {change("b", 5), []*targetCopy{copyAt("a", 3), copyAt("b", 5)}, "replace b@5, bury a@5"},
		"write again after a delete":        {change("b", 5), []*targetCopy{tombAt("b", 4)}, "replace b@5"},
		"late, after a delete":              {change("b", 5), []*targetCopy{tombAt("b", 6)}, ""},
		"late, after a delete without copy": {change("b", 5), []*targetCopy{tombAt("halley-deleted", 6)}, ""},
		"delete":                            {removal(5), []*targetCopy{copyAt("b", 4)}, "bury b@5"},
		"delete, redelivered":               {removal(5), []*targetCopy{tombAt("b", 5)}, ""},
		"delete, late":                      {removal(5), []*targetCopy{copyAt("b", 6)}, ""},
		"delete without a copy":             {removal(5), nil, "tomb@5"},
		"second delete":                     {removal(7), []*targetCopy{tombAt("b", 5)}, "bury b@7"},
		"copy of another document":          {change("b", 5), []*targetCopy{another}, "was made of another"},
		"document of others":                {change("b", 5), []*targetCopy{theirs}, "not written by the migration"},
		"others elsewhere":                  {change("c", 5), []*targetCopy{theirs, another}, "create@5"},
		"delete next to others":             {removal(5), []*targetCopy{theirs, copyAt("a", 4)}, "bury a@5"},
	} {
		t.Run(name, func(t *testing.T) {
			actions, err := decide(test.wanted, test.copies)
			if err != nil {
				if !strings.Contains(err.Error(), "exists in the target at key") || test.want == "" || strings.Contains(test.want, "@") {
					t.Errorf("refused: %v", err)
				}
				return
			}
			var texts []string
			for _, a := range actions {
				text := string(a.kind)
				if a.on != nil {
					text += " " + a.on.key.values[0].(string)
				}
				texts = append(texts, fmt.Sprintf("%s@%d", text, a.at.Time))
			}
			if got := strings.Join(texts, ", "); got != test.want {
				t.Errorf("decided %q, want %q", got, test.want)
			}
		})
	}
}
