package filter

import (
	"strings"
	"testing"
)

// verdicts are examples of each operator. Most are those of the documentation of
// EventBridge and Lambda.
var verdicts = []struct {
	pattern, document string
	passes            bool
}{
	{`{"user":[null]}`, `{"user":null}`, true},
	{`{"user":[null]}`, `{"user":""}`, false},
	{`{"user":[null]}`, `{}`, false},
	{`{"name":[""]}`, `{"name":""}`, true},
	{`{"name":[""]}`, `{"name":null}`, false},
	{`{"name":["Alice"]}`, `{"name":"Alice"}`, true},
	{`{"name":["Alice"]}`, `{"name":"alice"}`, false},
	{`{"name":["Alice"]}`, `{"surname":"Alice"}`, false},
	{`{"on":[true]}`, `{"on":true}`, true},
	{`{"on":[true]}`, `{"on":"true"}`, false},
	{`{"name":[{"equals-ignore-case":"alice"}]}`, `{"name":"ALICE"}`, true},
	{`{"name":[{"equals-ignore-case":"ÉTÉ"}]}`, `{"name":"\u00e9té"}`, true},
	{`{"place":["New York"],"day":["Monday"]}`, `{"place":"New York","day":"Monday"}`, true},
	{`{"place":["New York"],"day":["Monday"]}`, `{"place":"New York","day":"Friday"}`, false},
	{`{"paid":["Credit","Debit"]}`, `{"paid":"Debit"}`, true},
	{`{"region":[{"prefix":"us-"}]}`, `{"region":"us-east"}`, true},
	{`{"region":[{"prefix":"us-"}]}`, `{"region":"us"}`, false},
	{`{"file":[{"suffix":".png"}]}`, `{"file":"a.png"}`, true},
	{`{"file":[{"suffix":".png"}]}`, `{"file":"png"}`, false},
	{`{"file":[{"suffix":".png"}]}`, `{"file":7}`, false},

	// Anything but.
	{`{"weather":[{"anything-but":["rain"]}]}`, `{"weather":"sun"}`, true},
	{`{"weather":[{"anything-but":["rain","snow"]}]}`, `{"weather":"snow"}`, false},
	{`{"weather":[{"anything-but":"rain"}]}`, `{"weather":null}`, true},
	{`{"weather":[{"anything-but":"rain"}]}`, `{}`, false},
	{`{"limit":[{"anything-but":[100,200]}]}`, `{"limit":1e2}`, false},
	{`{"limit":[{"anything-but":100}]}`, `{"limit":"100"}`, true},
	{`{"region":[{"anything-but":{"prefix":"us-"}}]}`, `{"region":"us-east"}`, false},
	{`{"region":[{"anything-but":{"suffix":["a","b"]}}]}`, `{"region":"c"}`, true},
	{`{"state":[{"anything-but":{"equals-ignore-case":["off"]}}]}`, `{"state":"OFF"}`, false},
	{`{"weather":[{"anything-but":"rain"}]}`, `{"weather":["rain","sun"]}`, true},

	// Numbers.
	{`{"price":[100]}`, `{"price":100}`, true},
	{`{"price":[100]}`, `{"price":100.00}`, true},
	{`{"price":[{"numeric":["=",100]}]}`, `{"price":1e2}`, true},
	{`{"price":[1.0]}`, `{"price":1}`, true},
	{`{"price":[0]}`, `{"price":-0.0e7}`, true},
	{`{"price":[9007199254740993]}`, `{"price":9007199254740992}`, false},
	{`{"price":[9007199254740993]}`, `{"price":9007199254740993.0}`, true},
	{`{"price":[{"numeric":[">",10,"<=",20]}]}`, `{"price":10}`, false},
	{`{"price":[{"numeric":[">",10,"<=",20]}]}`, `{"price":10.000000000000000000001}`, true},
	{`{"price":[{"numeric":[">",10,"<=",20]}]}`, `{"price":2E+1}`, true},
	{`{"price":[{"numeric":[">",10,"<=",20]}]}`, `{"price":20.1}`, false},
	{`{"price":[{"numeric":["<",-5]}]}`, `{"price":-5.5}`, true},
	{`{"price":[{"numeric":["<",0]}]}`, `{"price":"-1"}`, false},
	{`{"price":[{"numeric":[">=",1e-400]}]}`, `{"price":1e-399}`, true},

	// Missing fields.
	{`{"name":[{"exists":true}]}`, `{"name":null}`, true},
	{`{"name":[{"exists":true}]}`, `{}`, false},
	{`{"name":[{"exists":false}]}`, `{"other":1}`, true},
	{`{"name":[{"exists":false}]}`, `{"name":""}`, false},
	{`{"name":[{"exists":false},"x"]}`, `{"name":"x"}`, true},
	{`{"name":[{"exists":true}]}`, `{"name":{"first":"x"}}`, false},
	{`{"name":[{"exists":false}]}`, `{"name":{"first":"x"}}`, true},
	{`{"name":[{"exists":false}]}`, `{"name":[]}`, true},
	{`{"name":[{"exists":true}]}`, `{"name":[[],{},[[null]]]}`, true},
	{`{"at":{"x":[{"exists":false}]}}`, `{}`, true},
	{`{"at":{"x":[{"exists":false}]}}`, `{"at":7}`, true},
	{`{"at":{"x":[{"exists":false}]}}`, `{"at":{"x":1}}`, false},

	// Arrays, and objects in them.
	{`{"tags":["b"]}`, `{"tags":["a","b"]}`, true},
	{`{"tags":["b"]}`, `{"tags":[["a"],[[ "b" ]]]}`, true},
	{`{"tags":["b"]}`, `{"tags":["a",{"b":"b"}]}`, false},
	{`{"lines":{"item":["pen"]}}`, `{"lines":[{"item":"ink"},{"item":"pen"}]}`, true},
	{`{"lines":{"item":["pen"],"count":[2]}}`, `{"lines":[{"item":"pen","count":1},{"item":"ink","count":2}]}`, false},
	{`{"lines":{"item":["pen"],"count":[2]}}`, `{"lines":[[{"item":"pen","count":1}],[{"item":"pen","count":2}]]}`, true},
	{`{"lines":{"item":["pen"],"gift":[{"exists":false}]}}`, `{"lines":[{"item":"pen"},{"gift":true}]}`, true},
	{`{"lines":{"gift":[{"exists":false}]}}`, `{"lines":[{"item":"pen"},{"gift":true}]}`, false},
	{`{"lines":{"gift":[{"exists":false}]}}`, `{"lines":[{"item":"pen"},{"item":"ink"}]}`, true},
	{`{"lines":{"gift":[{"exists":false}]}}`, `{"lines":[]}`, true},

	// Alternatives.
	{`{"type":["a"],"$or":[{"x":[1]},{"y":[2]}]}`, `{"type":"a","y":2}`, true},
	{`{"type":["a"],"$or":[{"x":[1]},{"y":[2]}]}`, `{"type":"b","y":2}`, false},
	{`{"type":["a"],"$or":[{"x":[1]},{"y":[2]}]}`, `{"type":"a","x":2,"y":1}`, false},
	{`{"$or":[{"x":[1],"$or":[{"y":[1]},{"z":[1]}]},{"w":{"$or":[{"a":[1]},{"b":[1]}]}}]}`, `{"x":1,"z":1}`, true},
	{`{"$or":[{"x":[1],"$or":[{"y":[1]},{"z":[1]}]},{"w":{"$or":[{"a":[1]},{"b":[1]}]}}]}`, `{"x":1,"w":{"b":1}}`, true},
	{`{"$or":[{"x":[1],"$or":[{"y":[1]},{"z":[1]}]},{"w":{"$or":[{"a":[1]},{"b":[1]}]}}]}`, `{"x":1,"w":{"c":1}}`, false},

	// Spellings.
	{`{"name":["A\"\\\/\nb"]}`, `{"name":"\u0041\"\\/\u000Ab"}`, true},
	{`{"n\u0061me":["x"]}`, `{ "\u006eame" : "x" }`, true},
	{`{"name":["\ud83d\ude00"]}`, `{"name":"😀"}`, true},
	{`{"name":[{"suffix":"😀"}]}`, `{"name":"a\ud83d\ude00"}`, true},
	{`{"name":[{"prefix":"ab"}]}`, `{"name":"\u0061\u0062\u0063"}`, true},
	{`{"name":["x"]}`, `{"name":"x","name":"y"}`, false},
	{`{"name":["x"]}`, `{"name":"y","na\u006de":"x"}`, true},
	{`{"at":{"x":[1]}}`, `{"at":{"x":1},"at":{}}`, false},
	{`{"name":["x"]}`, `{"inner":{"name":"x"}}`, false},
	{`{"name":["x"]}`, `{"text":"\",\"name\":\"x\""}`, false},

	// What is not an object passes: the handler tells of it.
	{`{"name":["x"]}`, `7`, true},
	{`{"name":["x"]}`, ``, true},
	{`{"name":["x"]}`, `{"name":"y"`, true},
	{`{"name":["x"]}`, `{"name" "y"}`, true},
}

func TestVerdicts(t *testing.T) {
	for _, tt := range verdicts {
		f, err := Compile([]string{tt.pattern})
		if err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
		} else if passes := f.Passes([]byte(tt.document)); passes != tt.passes {
			t.Errorf("%s on %s: passes %v", tt.pattern, tt.document, passes)
		}
	}
}

func TestOneOfSeveralPatternsMustMatch(t *testing.T) {
	f, err := Compile([]string{`{"type":["order"],"total":[{"numeric":[">",100]}]}`, `{"type":["refund"]}`, `{"lines":{"item":["pen"]}}`})
	if err != nil {
		t.Fatal(err)
	}
	for document, passes := range map[string]bool{
		`{"type":"order","total":101}`:                 true,
		`{"type":"order","total":100}`:                 false,
		`{"type":"refund"}`:                            true,
		`{"type":"order","lines":[{},{"item":"pen"}]}`: true,
		`{"type":"visit","total":101}`:                 false,
	} {
		if f.Passes([]byte(document)) != passes {
			t.Errorf("%s: passes %v", document, !passes)
		}
	}
	if all, err := Compile(nil); err != nil || !all.Passes([]byte(`{}`)) {
		t.Errorf("without a pattern: %v", err)
	}
}

// faults are patterns that are refused, and parts of their errors.
var faults = []struct{ pattern, place, fix string }{
	{``, "pattern 2, byte 0", "not JSON"},
	{`{"a":[1}`, "pattern 2, byte 8", "not JSON"},
	{`{"a":[1]} x`, "pattern 2, byte 11", "not JSON"},
	{`["a"]`, "pattern 2:", `write an object`},
	{`{}`, "pattern 2:", "name a field"},
	{`{"a":{"b":{}}}`, "pattern 2, at a.b:", "name a field"},
	{`{"a":{"b c":"x"}}`, `pattern 2, at a."b c":`, `write ["x"]`},
	{`{"a":[]}`, "pattern 2, at a:", "[null]"},
	{`{"a":["x",["y"]]}`, "pattern 2, at a[1]:", "operator"},
	{`{"a":["x"],"a":["y"]}`, "pattern 2, at a:", "one list"},
	{`{"a":[{}]}`, "pattern 2, at a[0]:", "object of its own"},
	{`{"a":[{"prefix":"x","suffix":"y"}]}`, "pattern 2, at a[0]:", "object of its own"},
	{`{"a":[{"wildcard":"x*"}]}`, "pattern 2, at a[0]:", "choose anything-but"},
	{`{"a":[{"prefix":1}]}`, "pattern 2, at a[0].prefix:", "needs a text"},
	{`{"a":[{"exists":"yes"}]}`, "pattern 2, at a[0].exists:", "true or false"},
	{`{"a":[{"anything-but":[]}]}`, "pattern 2, at a[0].anything-but:", "write the values"},
	{`{"a":[{"anything-but":[["x"]]}]}`, "pattern 2, at a[0].anything-but[0]:", "operator"},
	{`{"a":[{"anything-but":{"numeric":["=",1]}}]}`, "pattern 2, at a[0].anything-but:", "choose prefix"},
	{`{"a":[{"anything-but":{"prefix":""}}]}`, "pattern 2, at a[0].anything-but.prefix:", "longer"},
	{`{"a":[{"anything-but":{"prefix":"x","suffix":"y"}}]}`, "pattern 2, at a[0].anything-but:", "choose one"},
	{`{"a":[{"numeric":">5"}]}`, "pattern 2, at a[0].numeric:", `[">=", 1]`},
	{`{"a":[{"numeric":[">","5"]}]}`, "pattern 2, at a[0].numeric[1]:", "not a number"},
	{`{"a":[{"numeric":["==",5]}]}`, "pattern 2, at a[0].numeric[0]:", `["=", 1]`},
	{`{"a":[{"numeric":["<",5,">",1]}]}`, "pattern 2, at a[0].numeric:", "lower bound"},
	{`{"a":[{"numeric":[">",5,"<=",5]}]}`, "pattern 2, at a[0].numeric:", "exchange"},
	{`{"$or":[{"a":[1]}]}`, "pattern 2, at $or:", "two or more"},
	{`{"a":{"$or":[{"b":[1]},7]}}`, "pattern 2, at a.$or[1]:", "write an object"},
	{`{"a":{"$or":[{"b":[1]},{"c":1}]}}`, "pattern 2, at a.$or[1].c:", "write [1]"},
	{`{"a":[` + strings.Repeat(`[`, 20_000), "pattern 2, byte", "not JSON"},
}

func TestFaultsAreNamedWithPlaceAndFix(t *testing.T) {
	for _, tt := range faults {
		_, err := Compile([]string{`{"a":[1]}`, tt.pattern})
		if err == nil || !strings.HasPrefix(err.Error(), tt.place) || !strings.Contains(err.Error(), tt.fix) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s: %v", tt.pattern, err)
		}
	}
	if _, err := Compile([]string{`{}`, `{"a":[1]}`, `{"a":[]}`}); err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "pattern 3") {
		t.Errorf("two faults: %v", err)
	}
}

func TestTooManyConditionsAreRefused(t *testing.T) {
	names := func(n int) string {
		var fields []string
		for i := range n {
			fields = append(fields, `"f`+strings.Repeat("x", i)+`":[1]`)
		}
		return "{" + strings.Join(fields, ",") + "}"
	}
	if f, err := Compile([]string{names(64)}); err != nil || f.Passes([]byte(`{"f":1}`)) {
		t.Errorf("64 conditions: %v", err)
	}
	for _, patterns := range [][]string{{names(65)}, {names(64), `{"a":[1]}`}, {`{"a":` + names(65) + `}`}} {
		if _, err := Compile(patterns); err == nil || !strings.Contains(err.Error(), "more than 64 conditions") {
			t.Errorf("65 conditions: %v", err)
		}
	}
}

// The bytes of a page are evaluated before any copy.
func TestPassesDoesNotAllocate(t *testing.T) {
	for _, tt := range verdicts {
		f, err := Compile([]string{tt.pattern, `{"lines":{"item":[{"suffix":"n"}]}}`, `{"long \u00e9":[{"anything-but":{"equals-ignore-case":"x"}}]}`})
		if err != nil {
			t.Fatal(err)
		}
		document := []byte(tt.document)
		if n := testing.AllocsPerRun(10, func() { f.Passes(document) }); n != 0 {
			t.Errorf("%s on %s: %v allocations", tt.pattern, tt.document, n)
		}
	}
}

func TestDeepArrays(t *testing.T) {
	f, err := Compile([]string{`{"a":{"b":["x"]}}`})
	if err != nil {
		t.Fatal(err)
	}
	deep := func(inner string) []byte {
		return []byte(`{"a":` + strings.Repeat("[", 9000) + inner + strings.Repeat("]", 9000) + `}`)
	}
	if !f.Passes(deep(`{"b":"x"}`)) || f.Passes(deep(`{"b":"y"}`)) || f.Passes(deep(`"x"`)) {
		t.Error("an object in deep arrays")
	}
}
