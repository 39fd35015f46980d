package filter

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// The reference of this file evaluates patterns slowly, on documents that encoding/json
// has decoded, and pattern by pattern. It shares no code with the package.

// referencePasses reports whether a document that is valid JSON passes. The patterns
// compile.
func referencePasses(patterns []string, document []byte) bool {
	object, ok := decodeJSON(document).(map[string]any)
	return !ok || slices.ContainsFunc(patterns, func(text string) bool {
		return matchesPattern(decodeJSON([]byte(text)).(map[string]any), object)
	})
}

func decodeJSON(text []byte) (v any) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		panic(err)
	}
	return v
}

func matchesPattern(pattern, object map[string]any) bool {
	for name, wanted := range pattern {
		found, exists := object[name]
		switch wanted := wanted.(type) {
		case map[string]any:
			if !matchesInner(wanted, found) {
				return false
			}
		case []any:
			if name == "$or" {
				if !slices.ContainsFunc(wanted, func(p any) bool { return matchesPattern(p.(map[string]any), object) }) {
					return false
				}
				continue
			}
			var values []any
			if exists {
				values = valuesIn(found)
			}
			if !slices.ContainsFunc(wanted, func(rule any) bool { return matchesRule(rule, values) }) {
				return false
			}
		}
	}
	return true
}

// matchesInner applies a pattern to the objects in a field.
func matchesInner(pattern map[string]any, found any) bool {
	objects := objectsIn(found)
	if len(objects) == 0 {
		return matchesPattern(pattern, nil)
	}
	matches := func(object map[string]any) bool { return matchesPattern(pattern, object) }
	if asksForAbsence(pattern) {
		return !slices.ContainsFunc(objects, func(o map[string]any) bool { return !matches(o) })
	}
	return slices.ContainsFunc(objects, matches)
}

func asksForAbsence(pattern map[string]any) bool {
	for name, wanted := range pattern {
		switch wanted := wanted.(type) {
		case map[string]any:
			if !asksForAbsence(wanted) {
				return false
			}
		case []any:
			for _, rule := range wanted {
				operator, _ := rule.(map[string]any)
				if name == "$or" && !asksForAbsence(operator) || name != "$or" && operator["exists"] != false {
					return false
				}
			}
		}
	}
	return true
}

func objectsIn(found any) []map[string]any {
	switch found := found.(type) {
	case map[string]any:
		return []map[string]any{found}
	case []any:
		var all []map[string]any
		for _, element := range found {
			all = append(all, objectsIn(element)...)
		}
		return all
	}
	return nil
}

func valuesIn(found any) []any {
	switch found := found.(type) {
	case map[string]any:
		return nil
	case []any:
		var all []any
		for _, element := range found {
			all = append(all, valuesIn(element)...)
		}
		return all
	}
	return []any{found}
}

// matchesRule applies a rule to the values of a field.
func matchesRule(rule any, values []any) bool {
	if operator, ok := rule.(map[string]any); ok {
		if wanted, ok := operator["exists"]; ok {
			return wanted == (len(values) > 0)
		}
	}
	return slices.ContainsFunc(values, func(v any) bool { return matchesValue(rule, v) })
}

func matchesValue(rule, v any) bool {
	operator, ok := rule.(map[string]any)
	if !ok {
		return equalValues(rule, v)
	}
	for name, operand := range operator {
		text, isText := v.(string)
		switch name {
		case "prefix":
			return isText && strings.HasPrefix(text, operand.(string))
		case "suffix":
			return isText && strings.HasSuffix(text, operand.(string))
		case "equals-ignore-case":
			return isText && strings.EqualFold(text, operand.(string))
		case "numeric":
			return inRange(operand.([]any), v)
		case "anything-but":
			return !isExcluded(operand, v)
		}
	}
	panic("unknown rule")
}

func isExcluded(operand, v any) bool {
	wrap := func(value any) any { return value }
	if operator, ok := operand.(map[string]any); ok {
		for name, inner := range operator {
			wrap = func(value any) any { return map[string]any{name: value} }
			operand = inner
		}
	}
	list, ok := operand.([]any)
	if !ok {
		list = []any{operand}
	}
	return slices.ContainsFunc(list, func(value any) bool { return matchesValue(wrap(value), v) })
}

func equalValues(rule, v any) bool {
	if n, ok := rule.(json.Number); ok {
		m, ok := v.(json.Number)
		return ok && compareNumbers(m, n) == 0
	}
	return rule == v
}

func inRange(comparisons []any, v any) bool {
	n, ok := v.(json.Number)
	for i := 0; ok && i < len(comparisons); i += 2 {
		sign := compareNumbers(n, comparisons[i+1].(json.Number))
		switch comparisons[i] {
		case "=":
			ok = sign == 0
		case "<":
			ok = sign < 0
		case "<=":
			ok = sign <= 0
		case ">":
			ok = sign > 0
		case ">=":
			ok = sign >= 0
		}
	}
	return ok
}

// compareNumbers compares the integers a·10^x and b·10^y.
func compareNumbers(n, m json.Number) int {
	a, x := integerOf(n)
	b, y := integerOf(m)
	if a.Sign() != b.Sign() || a.Sign() == 0 {
		return a.Sign() - b.Sign()
	}
	const exact = 3000
	if difference := x - y; difference > exact || difference < -exact { // too far apart to multiply
		length := func(i *big.Int, x int) int { return len(new(big.Int).Abs(i).String()) + x }
		if length(a, x) != length(b, y) {
			return a.Sign() * (length(a, x) - length(b, y))
		}
	}
	scale := func(i *big.Int, x int) { i.Mul(i, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(x, 0))), nil)) }
	scale(a, x-y)
	scale(b, y-x)
	return a.Cmp(b)
}

// integerOf returns i and x with n = i·10^x.
func integerOf(n json.Number) (i *big.Int, x int) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(n.String()), "e")
	integer, fraction, _ := strings.Cut(mantissa, ".")
	i, _ = new(big.Int).SetString(integer+fraction, 10)
	x, err := strconv.Atoi(strings.TrimPrefix(exponent, "+"))
	if exponent != "" && err != nil || x > maxExponent || x < -maxExponent {
		x = maxExponent
		if strings.HasPrefix(exponent, "-") {
			x = -maxExponent
		}
	}
	return i, x - len(fraction)
}
