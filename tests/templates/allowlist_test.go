package templates

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An allow-list names the types of resources and what they may have, as far as the
// templates use it. A rule is one of
//
//	"string", "boolean", "number"   a value of that type
//	"integer", "integer 0..20"      an integer, in a range whose ends may be left out
//	"/^a+$/"                        a text that matches
//	["A", "B"]                      one of these
//	{"[]": RULE}                    an array
//	{"*": RULE}                     an object with any keys
//	{"a!": RULE, "b": RULE}         an object with these keys, of which a is required
type allowList struct {
	Source string
	Types  map[string]any
}

func readAllowList(t *testing.T, name string) allowList {
	t.Helper()
	var list allowList
	if err := json.Unmarshal(readFile(t, filepath.Join("allowed", name)), &list); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !strings.Contains(list.Source, "https://") {
		t.Fatalf("%s does not name its source", name)
	}
	return list
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// expression returns the text of an expression of Bicep or of CloudFormation, whose
// value only the platform knows.
func expression(value any) (text string, ok bool) {
	object, _ := value.(map[string]any)
	text, ok = object["$"].(string)
	return text, ok
}

// judge returns the findings about a value at a path.
func judge(value, rule any, at string) []string {
	if text, ok := expression(value); ok {
		return judgeExpression(value.(map[string]any), text, rule, at)
	}
	switch rule := rule.(type) {
	case string:
		if !hasType(value, rule) {
			return []string{fmt.Sprintf("%s is %v, want %s", at, shown(value), rule)}
		}
	case []any:
		if !slices.ContainsFunc(rule, func(allowed any) bool { return allowed == value }) {
			return []string{fmt.Sprintf("%s is %v, want one of %v", at, shown(value), shown(rule))}
		}
	case map[string]any:
		if element, ok := rule["[]"]; ok {
			return judgeArray(value, element, at)
		}
		return judgeObject(value, rule, at)
	}
	return nil
}

// judgeExpression judges the parts of an expression that are known: the branches of a
// condition, the body of a loop, and that an interpolated string is a string.
func judgeExpression(value map[string]any, text string, rule any, at string) (found []string) {
	if branches, ok := value["either"].([]any); ok {
		for _, branch := range branches {
			found = append(found, judge(branch, rule, at)...)
		}
		return found
	}
	object, _ := rule.(map[string]any)
	element, isArray := object["[]"]
	if body, ok := value["each"]; ok {
		if !isArray {
			return []string{at + " is a loop, want no array"}
		}
		return judge(body, element, at+"[]")
	}
	_, isEnum := rule.([]any)
	if name, _ := rule.(string); strings.HasPrefix(text, "'") && !isEnum && name != "string" && !strings.HasPrefix(name, "/") {
		return []string{fmt.Sprintf("%s is the string %s, want %v", at, text, shown(rule))}
	}
	return nil
}

func judgeArray(value, element any, at string) (found []string) {
	array, ok := value.([]any)
	if !ok {
		return []string{fmt.Sprintf("%s is %v, want an array", at, shown(value))}
	}
	for i, item := range array {
		found = append(found, judge(item, element, fmt.Sprintf("%s[%d]", at, i))...)
	}
	return found
}

func judgeObject(value any, rule map[string]any, at string) (found []string) {
	object, ok := value.(map[string]any)
	if !ok {
		return []string{fmt.Sprintf("%s is %v, want an object", at, shown(value))}
	}
	for _, key := range slices.Sorted(maps.Keys(rule)) {
		if name, required := strings.CutSuffix(key, "!"); required && object[name] == nil {
			found = append(found, fmt.Sprintf("%s has no %s", at, name))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		below, known := rule[key]
		for _, other := range []string{key + "!", "*"} {
			if !known {
				below, known = rule[other]
			}
		}
		if !known {
			found = append(found, fmt.Sprintf("%s has %s, which is not allowed", at, key))
			continue
		}
		found = append(found, judge(object[key], below, at+"."+key)...)
	}
	return found
}

func hasType(value any, rule string) bool {
	name, bounds, _ := strings.Cut(rule, " ")
	switch text, isText := value.(string); {
	case strings.HasPrefix(rule, "/"):
		return isText && regexp.MustCompile(strings.Trim(rule, "/")).MatchString(text)
	case name == "string":
		return isText
	case name == "boolean":
		_, ok := value.(bool)
		return ok
	default:
		number, ok := value.(float64)
		return ok && (name == "number" || number == float64(int64(number)) && inRange(number, bounds))
	}
}

// inRange reports whether a number lies in "LEAST..MOST", "" being any range.
func inRange(number float64, bounds string) bool {
	least, most, _ := strings.Cut(bounds, "..")
	if n, err := strconv.ParseFloat(least, 64); err == nil && number < n {
		return false
	}
	n, err := strconv.ParseFloat(most, 64)
	return err != nil || number <= n
}

func shown(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func TestRuleIsJudged(t *testing.T) {
	tests := []struct{ value, rule, want string }{
		{`"a"`, `"string"`, ``},
		{`1`, `"string"`, `x is 1, want string`},
		{`true`, `"boolean"`, ``},
		{`"true"`, `"boolean"`, `x is "true", want boolean`},
		{`3`, `"integer 0..20"`, ``},
		{`21`, `"integer 0..20"`, `x is 21, want integer 0..20`},
		{`-1`, `"integer 0.."`, `x is -1, want integer 0..`},
		{`1.5`, `"integer"`, `x is 1.5, want integer`},
		{`1.5`, `"number"`, ``},
		{`"aa"`, `"/^a+$/"`, ``},
		{`"ab"`, `"/^a+$/"`, `x is "ab", want /^a+$/`},
		{`"A"`, `["A", "B"]`, ``},
		{`"a"`, `["A", "B"]`, `x is "a", want one of ["A","B"]`},
		{`["a", 1]`, `{"[]": "string"}`, `x[1] is 1, want string`},
		{`"a"`, `{"[]": "string"}`, `x is "a", want an array`},
		{`{"a": 1}`, `{"*": "integer"}`, ``},
		{`{"a": 1}`, `{"a!": "integer", "b!": "string", "c": "string"}`, `x has no b`},
		{`{"d": 1}`, `{"c": "string"}`, `x has d, which is not allowed`},
		{`1`, `{"c": "string"}`, `x is 1, want an object`},
		{`{"$": "a.b"}`, `"integer"`, ``},
		{`{"$": "'${a}'"}`, `"integer"`, `x is the string '${a}', want "integer"`},
		{`{"$": "a ? b : c", "either": [1, "c"]}`, `"integer"`, `x is "c", want integer`},
		{`{"$": "[for a in b: 1]", "each": "c"}`, `{"[]": "integer"}`, `x[] is "c", want integer`},
	}
	for _, test := range tests {
		var value, rule any
		for text, into := range map[string]*any{test.value: &value, test.rule: &rule} {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		if found := strings.Join(judge(value, rule, "x"), "; "); found != test.want {
			t.Errorf("%s by %s: %q, want %q", test.value, test.rule, found, test.want)
		}
	}
}
