package jsonform

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
)

// Values sent and read are those of the recorded answers of a hosted account, October
// 2026, and their neighbours.
func TestForms(t *testing.T) {
	for _, tt := range []struct{ sent, stored, projected string }{
		{`1.0`, `1`, `1`},
		{`-0.0`, `0`, `0`},
		{`-0`, `0`, `0`},
		{`-0e5`, `0`, `0`},
		{`0`, `0`, `0`},
		{`-5`, `-5`, `-5`},
		{`1e-400`, `0`, `0`},
		{`-1e-400`, `0`, `0`},
		{`1E2`, `100`, `100`},
		{`1.50`, `1.5`, `1.5`},
		{`12.5`, `12.5`, `12.5`},
		{`-0.5`, `-0.5`, `-0.5`},
		{`0.05`, `0.05`, `0.05`},
		{`0.00001`, `1e-005`, `1e-05`},
		{`0.100000000000001`, `0.100000000000001`, `0.100000000000001`},
		{`123456789012.3456`, `123456789012.3456`, `123456789012.3456`},
		{`1.1234567890123456`, `1.1234567890123457`, `1.1234567890123457`},
		{`7.5e0`, `7.5`, `7.5`},
		{`0.1000000000000000055511151231257827`, `0.1`, `0.1`},
		{`0.3333333333333333`, `0.33333333333333331`, `0.33333333333333331`},
		{`1e-7`, `1e-007`, `1e-07`},
		{`9007199254740993`, `9007199254740993`, `9007199254740993`},
		{`9223372036854775807`, `9223372036854775807`, `9223372036854775807`},
		{`-9223372036854775808`, `-9223372036854775808`, `-9223372036854775808`},
		{`-9223372036854775809`, `-9.2233720368547758e+018`, `-9.2233720368547758e+18`},
		{`9223372036854775808`, `9223372036854775808`, `9.2233720368547758e+18`},
		{`18446744073709551615`, `18446744073709551615`, `1.8446744073709552e+19`},
		{`18446744073709551616`, `1.8446744073709552e+019`, `1.8446744073709552e+19`},
		{`1e308`, `1e+308`, `1e+308`},
		{`5e-324`, `4.94065645841247e-324`, `4.94065645841247e-324`},
		{`"a\u0000b"`, `"a\u0000b"`, `"a\u0000b"`},
		{`"\ud800"`, `"` + "\uFFFD" + `"`, `"` + "\uFFFD" + `"`},
		{`"x\uDFFF\\\"1.0"`, `"x` + "\uFFFD" + `\\\"1.0"`, `"x` + "\uFFFD" + `\\\"1.0"`},
		{`"\ud83d\ude00"`, `"\ud83d\ude00"`, `"\ud83d\ude00"`},
		{`"\ud83d\ud83d\ude00\ud83dx"`, `"` + "\uFFFD" + `\ud83d\ude00` + "\uFFFD" + `x"`, `"` + "\uFFFD" + `\ud83d\ude00` + "\uFFFD" + `x"`},
		{`"\\ud800"`, `"\\ud800"`, `"\\ud800"`},
		{`{"\ud800":[1.0,{"b":2.50}],"s":"1.0","n":7}`, `{"` + "\uFFFD" + `":[1,{"b":2.5}],"s":"1.0","n":7}`, `{"` + "\uFFFD" + `":[1,{"b":2.5}],"s":"1.0","n":7}`},
	} {
		got, err := Stored([]byte(tt.sent))
		if err != nil || string(got) != tt.stored {
			t.Errorf("Stored(%s) = %s, %v, want %s", tt.sent, got, err, tt.stored)
		}
		if got := Projected([]byte(tt.sent)); string(got) != tt.projected {
			t.Errorf("Projected(%s) = %s, want %s", tt.sent, got, tt.projected)
		}
		if got := Projected([]byte(tt.stored)); string(got) != tt.projected {
			t.Errorf("Projected(%s) = %s, want %s", tt.stored, got, tt.projected)
		}
	}
}

func TestNumbersOutsideTheRangeOfADouble(t *testing.T) {
	if got, err := Stored([]byte(`{"a":[1e400]}`)); !errors.Is(err, ErrRange) {
		t.Errorf("Stored(1e400) = %s, %v", got, err)
	}
	if got := Projected([]byte(`[1.0,-1e400]`)); string(got) != `[1.0,-1e400]` {
		t.Errorf("Projected(-1e400) = %s", got)
	}
}

func TestUnchangedTextIsNotCopied(t *testing.T) {
	text := []byte(`{"id":"a","n":12,"list":[true,null,"x",12.5,-0.25]}`)
	if got, err := Stored(text); err != nil || &got[0] != &text[0] {
		t.Errorf("Stored copied %s, %v", text, err)
	}
	if allocations := testing.AllocsPerRun(10, func() { _ = Projected(text) }); allocations != 0 {
		t.Errorf("Projected makes %v allocations", allocations)
	}
}

// FuzzForms checks that a form changes no value beyond the precision of a double, and
// that it changes nothing twice.
func FuzzForms(f *testing.F) {
	for _, seed := range []string{`{"a":[1.0,"\ud800\"",-0.0,1e300]}`, `18446744073709551616`, `"\ud83d\ude00"`, `[0.1,1e-7,123456789012345678901]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var sent any
		if json.Unmarshal(text, &sent) != nil {
			return
		}
		for name, write := range map[string]func([]byte) ([]byte, error){
			"stored": Stored, "projected": func(b []byte) ([]byte, error) { return Projected(b), nil },
		} {
			got, err := write(text)
			var read any
			if err != nil || json.Unmarshal(got, &read) != nil || !equal(sent, read) {
				t.Fatalf("the %s form of %s is %s, %v", name, text, got, err)
			}
			if again, err := write(got); err != nil || string(again) != string(got) {
				t.Fatalf("the %s form of %s is %s, %v", name, got, again, err)
			}
		}
	})
}

func equal(a, b any) bool {
	x, _ := json.Marshal(a) // read from JSON
	y, _ := json.Marshal(b)
	if n, ok := a.(float64); ok && n == 0 {
		m, ok := b.(float64)
		return ok && math.Abs(m) == 0
	}
	switch a := a.(type) {
	case []any:
		list, ok := b.([]any)
		if !ok || len(list) != len(a) {
			return false
		}
		for i := range a {
			if !equal(a[i], list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		object, ok := b.(map[string]any)
		if !ok || len(object) != len(a) {
			return false
		}
		for name := range a {
			if !equal(a[name], object[name]) {
				return false
			}
		}
		return true
	}
	return string(x) == string(y)
}
