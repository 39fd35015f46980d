package sql

import (
	"errors"
	"testing"
)

// TestErrorTexts checks whole messages as clients see them, with code and position.
func TestErrorTexts(t *testing.T) {
	for query, want := range map[string]string{
		`SELECT * FORM c`:                             `SC1001 Syntax error, incorrect syntax near 'FORM'. (at position 9)`,
		`SELECT * FROM c WHERE`:                       `SC1001 Syntax error, the query ends too early. (at position 21)`,
		`SELECT c.order FROM c`:                       `SC1001 Syntax error, incorrect syntax near 'order'. It is a keyword; write ["order"]. (at position 9)`,
		`SELECT VALUE * FROM c`:                       `SC1001 Syntax error, incorrect syntax near '*'. (at position 13)`,
		`SELECT *, c.id FROM c`:                       `SC1001 Syntax error, incorrect syntax near ','. (at position 8)`,
		`SELECT # FROM c`:                             `SC1010 Syntax error, invalid token '#'. (at position 7)`,
		`SELECT "a FROM c`:                            `SC1001 Syntax error, the string is not closed. (at position 7)`,
		`SELECT VALUE "\x"`:                           `SC1001 Syntax error, invalid escape sequence in a string. (at position 14)`,
		`SELECT /* c`:                                 `SC1001 Syntax error, incorrect syntax near '/'. (at position 7)`,
		`SELECT VALUE 1e999`:                          `SC1001 Syntax error, number '1e999' is outside the range of a double. (at position 13)`,
		`SELECT VALUE {"a": 1, a: 2}`:                 `SC1001 Syntax error, property 'a' is defined twice. (at position 22)`,
		`SELECT VALUE "a" LIKE "b" ESCAPE ""`:         `SC1001 Syntax error, ESCAPE takes a string of one character. (at position 33)`,
		`SELECT * FROM c[-1]`:                         `SC1001 Syntax error, incorrect syntax near '-'. (at position 16)`,
		`SELECT d.id FROM c`:                          `SC2001 Identifier 'd' could not be resolved. (at position 7)`,
		`SELECT VALUE Nope(1)`:                        `SC2005 'Nope' is not a recognized built-in function name. (at position 13)`,
		`SELECT VALUE UDF.f(1)`:                       `SC2005 User-defined functions are not supported by the Halley emulator. (at position 13)`,
		`SELECT VALUE lower()`:                        `SC2010 The LOWER function requires 1 argument(s), not 0. (at position 13)`,
		`SELECT VALUE CONCAT()`:                       `SC2010 The CONCAT function requires at least 2 argument(s), not 0. (at position 13)`,
		`SELECT VALUE LOG(1, 2, 3)`:                   `SC2010 The LOG function requires 1 to 2 arguments, not 3. (at position 13)`,
		`SELECT *`:                                    `SC2102 'SELECT *' is not valid if FROM clause is omitted. (at position 0)`,
		`SELECT * FROM c JOIN t IN c.t`:               `SC2102 'SELECT *' is only valid with a single input set. (at position 0)`,
		`SELECT * FROM c GROUP BY c.a`:                `SC2102 'SELECT *' is not valid with GROUP BY. (at position 0)`,
		`SELECT c.a, c.a FROM c`:                      `SC2022 Object creation error, property name 'a' specified more than once. (at position 12)`,
		`SELECT c.a FROM c GROUP BY c.a ORDER BY c.a`: `SC2102 ORDER BY is not supported together with GROUP BY. (at position 0)`,
		`SELECT TOP 1.5 * FROM c`:                     `SC2201 The value '1.5' of TOP, OFFSET or LIMIT is not an integer of at most 2147483647. (at position 11)`,
		`SELECT TOP 1 * FROM c OFFSET 0 LIMIT 1`:      `SC2201 TOP and OFFSET LIMIT cannot be used together. (at position 0)`,
	} {
		_, err := Parse(query)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: error %v, want an *Error", query, err)
			continue
		}
		if got := e.Code + " " + e.Error(); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", query, got, want)
		}
	}
}
