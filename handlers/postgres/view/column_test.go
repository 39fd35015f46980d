package view

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"halley/handlers"
)

func TestColumnsAreParsed(t *testing.T) {
	columns, err := ParseColumns(" name = /customer/name , total=/total numeric,at=/_ts timestamptz,")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range columns {
		got = append(got, fmt.Sprintf("%s %s %s", c.Name, c.Path, c.Type))
	}
	if want := "[name /customer/name text total /total numeric at /_ts timestamptz]"; fmt.Sprint(got) != want {
		t.Errorf("columns are %s, want %s", got, want)
	}
}

// Settings that cannot work are refused with the setting and the fix, and without secrets.
func TestBadSettingsAreRefused(t *testing.T) {
	const url = "postgres://me:hunter2@127.0.0.1:1/db"
	good := Settings{PostgresURL: url, Table: "orders", Columns: "country=/country, total=/total numeric"}
	for name, test := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"no URL":         {func(s *Settings) { s.PostgresURL = "" }, "setting HALLEY_VIEW_POSTGRES_URL is empty; set it to"},
		"not a URL":      {func(s *Settings) { s.PostgresURL = "hunter2" }, "POSTGRES_URL is not a URL of PostgreSQL; write"},
		"another scheme": {func(s *Settings) { s.PostgresURL = "mysql://me:hunter2@host/db" }, "POSTGRES_URL is not a URL of PostgreSQL; write"},
		"unescaped":      {func(s *Settings) { s.PostgresURL = "postgres://me:hunter2/%x@host/db" }, "percent-encode the password"},
		"a slash in it":  {func(s *Settings) { s.PostgresURL = "postgres://me:1/hunter2@host/db" }, "percent-encode the password"},
		"table":          {func(s *Settings) { s.Table = `o"; DROP TABLE x` }, "setting HALLEY_VIEW_TABLE: "},
		"three parts":    {func(s *Settings) { s.Table = "a.b.c" }, "write table or schema.table"},
		"no columns":     {func(s *Settings) { s.Columns = "" }, "there is no column: write name=/path"},
		"no path":        {func(s *Settings) { s.Columns = "a" }, `setting HALLEY_VIEW_COLUMNS: "a" is not a column: write`},
		"relative path":  {func(s *Settings) { s.Columns = "a=b" }, `column "a": "b" is not a path: write /name`},
		"type":           {func(s *Settings) { s.Columns = "a=/a money" }, `has the type "money": use one of`},
		"name":           {func(s *Settings) { s.Columns = `a"b=/a` }, "is not a name of a column"},
		"own name":       {func(s *Settings) { s.Columns = "document=/a" }, "belongs to the view itself"},
		"twice":          {func(s *Settings) { s.Columns = "a=/a,a=/b" }, `there are two columns "a"`},
		"unknown group":  {func(s *Settings) { s.GroupBy = []string{"city"} }, `cannot group by "city": name columns of the view once`},
		"numeric group":  {func(s *Settings) { s.GroupBy = []string{"total"} }, `cannot group by "total"`},
		"sum of texts":   {func(s *Settings) { s.Sum = []string{"country"} }, `cannot sum "country"`},
		"sum twice":      {func(s *Settings) { s.Sum = []string{"total", "total"} }, `cannot sum "total"`},
		"names that meet": {func(s *Settings) {
			s.Columns, s.Sum, s.GroupBy = "sum_a=/b,a=/a numeric", []string{"a"}, []string{"sum_a"}
		}, `the column "sum_a"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			test.change(&s)
			_, _, err := Open(context.Background(), handlers.Env{Prefix: "HALLEY_VIEW_"}, s)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
	if _, closer, err := Open(context.Background(), handlers.Env{}, good); err != nil || closer() != nil {
		t.Errorf("good settings: %v", err)
	}
}

// An unreachable database is named without its password.
func TestUnreachableDatabaseIsNamed(t *testing.T) {
	var probe handlers.Probe
	_, closer, err := Open(t.Context(), handlers.Env{Prefix: "HALLEY_VIEW_", Probe: func(p handlers.Probe) { probe = p }},
		Settings{PostgresURL: "postgres://me:hunter2@127.0.0.1:1/db", Table: "orders", Columns: "a=/a"})
	if err != nil {
		t.Fatal(err)
	}
	err = probe.Try(t.Context())
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1") || !strings.Contains(err.Error(), "HALLEY_VIEW_POSTGRES_URL") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error is %v", err)
	}
	if err := closer(); err != nil {
		t.Error(err)
	}
}

func TestValuesAreConverted(t *testing.T) {
	for _, test := range []struct {
		typ       Type
		raw, want string // want begins with ! if it is an error
	}{
		{Text, `"ä\n"`, "ä\n"}, {Text, `12.50`, "12.50"}, {Text, `true`, "true"}, {Text, `{"a":[1]}`, `{"a":[1]}`}, {Text, `"\u0000"`, "!U+0000"},
		{Numeric, `12.50`, "12.50"}, {Numeric, `-1e5`, "-1e5"}, {Numeric, `1e400`, "!double"}, {Numeric, `"1"`, "!not a number"}, {Numeric, `true`, "!not a number"},
		{BigInt, `9223372036854775807`, "9223372036854775807"}, {BigInt, `5.0`, "5"}, {BigInt, `1e3`, "1000"}, {BigInt, `1.5`, "!whole"}, {BigInt, `1e20`, "!whole"}, {BigInt, `"5"`, "!whole"},
		{Boolean, `false`, "false"}, {Boolean, `0`, "!neither"},
		{Timestamp, `"2026-01-02T03:04:05.5+01:00"`, "2026-01-02T02:04:05.5Z"}, {Timestamp, `1`, "1970-01-01T00:00:01Z"}, {Timestamp, `"soon"`, "!not a time"}, {Timestamp, `1e15`, "!not a time"}, {Timestamp, `-1`, "!not a time"},
		{JSON, `{"a":"\ud83d\ude00\\u0000"}`, `{"a":"\ud83d\ude00\\u0000"}`}, {JSON, `"\u0000"`, "!U+0000"}, {JSON, `"\ud83d"`, "!surrogate"}, {JSON, `"\ude00\ud83d"`, "!surrogate"}, {JSON, `"\ud83dx\ude00"`, "!surrogate"},
	} {
		got, err := test.typ.convert(json.RawMessage(test.raw))
		if want, fails := strings.CutPrefix(test.want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s as %s: error is %v, want %s", test.raw, test.typ, err, want)
			}
		} else if err != nil || got != test.want {
			t.Errorf("%s as %s is %q, %v, want %q", test.raw, test.typ, got, err, test.want)
		}
	}
}
