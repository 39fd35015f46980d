// Package game defines the documents of the sample application: results of
// games, which the handlers read and the development writer posts.
package game

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
)

// MaxName is the greatest length of a player's and a game's name in bytes. It
// keeps every message about them within one push message of 4096 bytes.
const MaxName = 256

// Result is the score of a player when a game has ended. It is a document of the
// results container, whose partition key is /player: the results of one player
// arrive in order.
//
//	{"id":"5f2c…","game":"chess","player":"ada","score":1200}
type Result struct {
	ID     string  `json:"id"`
	Game   string  `json:"game"`
	Player string  `json:"player"`
	Score  float64 `json:"score"` // finite; higher is better; integers are exact up to 2^53

	// Timestamp is the time of the document's last write by the service, in
	// seconds since 1970. Writers leave it out.
	Timestamp int64 `json:"_ts,omitempty"`
}

// Validate checks the fields that the handlers rely on. If one is invalid, the
// error names the document and the field.
func (r Result) Validate() error {
	if r.ID == "" {
		return errors.New(`result without id: field "id" is missing or empty`)
	}
	if err := validName(r.Game); err != nil {
		return fmt.Errorf("result %q: field \"game\" %w", r.ID, err)
	}
	if err := validName(r.Player); err != nil {
		return fmt.Errorf("result %q: field \"player\" %w", r.ID, err)
	}
	if math.IsNaN(r.Score) || math.IsInf(r.Score, 0) {
		return fmt.Errorf("result %q: field \"score\" is %v, not a finite number", r.ID, r.Score)
	}
	return nil
}

func validName(name string) error {
	switch {
	case name == "":
		return errors.New("is missing or empty")
	case len(name) > MaxName:
		return fmt.Errorf("has %d bytes, more than %d", len(name), MaxName)
	case strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("holds a control character")
	}
	return nil
}

// UnmarshalJSON decodes a document and validates it. It ignores unknown fields.
// If a struct embeds a Result, this method decodes the whole struct, and its
// other fields stay zero.
func (r *Result) UnmarshalJSON(document []byte) error {
	type fields Result
	var d struct {
		fields
		Score *float64 `json:"score"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return describe(d.ID, err)
	}
	if d.Score == nil {
		return fmt.Errorf("result %q: field \"score\" is missing or null", d.ID)
	}
	*r = Result(d.fields)
	r.Score = *d.Score
	return r.Validate()
}

func describe(id string, err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("result %q: field %q is a %s, not a %s in range: %w", id, field(wrong), wrong.Value, wrong.Type.Kind(), err)
	}
	return fmt.Errorf("result %q: %w", id, err)
}

// field returns the name of the field in the document. If the field is embedded,
// the path in the error begins with the Go name of its struct.
func field(wrong *json.UnmarshalTypeError) string {
	return strings.TrimPrefix(wrong.Field, "fields.")
}
