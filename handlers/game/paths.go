package game

import (
	"encoding/json"
	"fmt"
	"strings"

	"halley/handlers/property"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// Paths are the places of the properties of a [Result] in documents of another shape. As a
// setting they are a text such as "game=/title, player=/user/name, score=/points"; a
// property that it leaves out stays at its default.
type Paths struct{ game, player, score property.Path }

// DefaultPaths are those of the documents that Result describes.
func DefaultPaths() (p Paths) {
	_ = p.Decode("game=/game, player=/player, score=/score")
	return p
}

// Decode implements envconfig's Decoder; an empty value leaves the paths.
func (p *Paths) Decode(text string) error {
	for entry := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(entry) == "" {
			continue
		}
		name, source, _ := strings.Cut(entry, "=")
		name = strings.TrimSpace(name)
		place, known := map[string]*property.Path{"game": &p.game, "player": &p.player, "score": &p.score}[name]
		if !known {
			return fmt.Errorf("%q is none of game, player and score: write game=/title, player=/user/name, score=/points", name)
		}
		path, err := property.Parse(strings.TrimSpace(source))
		if err != nil {
			return fmt.Errorf("path of the %s: %w", name, err)
		}
		*place = path
	}
	return nil
}

// String returns the paths as Decode takes them.
func (p Paths) String() string {
	return fmt.Sprintf("game=%s, player=%s, score=%s", p.game, p.player, p.score)
}

// Results reads the results of a batch, with the change of each. A delete and an expiry
// have none, in both modes: they take nothing off a board. If a document is not a result,
// the error names it and the field.
func (p Paths) Results(b trigger.Batch) (results []Result, changes []trigger.Change, err error) {
	for _, c := range b.Changes {
		if c.Operation == cosmos.OperationDelete || c.Operation == cosmos.OperationExpire {
			continue
		}
		r, err := p.read(c.Document)
		if err != nil {
			return nil, nil, fmt.Errorf("decode document at lsn %d: %w", c.LSN, err)
		}
		results, changes = append(results, r), append(changes, c)
	}
	return results, changes, nil
}

func (p Paths) read(document json.RawMessage) (r Result, err error) {
	var fields []string
	for _, field := range []struct {
		name  string
		value json.RawMessage
	}{
		{"id", cosmos.Property(document, "id")},
		{"game", p.game.Of(document)},
		{"player", p.player.Of(document)},
		{"score", p.score.Of(document)},
		{"_ts", cosmos.Property(document, "_ts")},
	} {
		if field.value != nil {
			fields = append(fields, fmt.Sprintf("%q:%s", field.name, field.value))
		}
	}
	if err = json.Unmarshal([]byte("{"+strings.Join(fields, ",")+"}"), &r); err == nil {
		return r, nil
	}
	if broken := json.Unmarshal(document, new(struct{})); broken != nil { // it has no properties at all
		err = broken
	}
	return r, err
}
