package sql

import (
	"encoding/base64"
	"math"
	"slices"
	"strings"
)

var typeFunctions = map[string]*function{
	"IS_DEFINED":       test1(value.defined),
	"IS_NULL":          test1(func(v value) bool { return v.kind == kindNull }),
	"IS_BOOL":          test1(func(v value) bool { return v.kind == kindBoolean }),
	"IS_BOOLEAN":       test1(func(v value) bool { return v.kind == kindBoolean }), // azure-cosmos 4.80 for Java names it so when it continues ORDER BY
	"IS_NUMBER":        test1(func(v value) bool { return v.kind == kindNumber }),
	"IS_STRING":        test1(func(v value) bool { return v.kind == kindString }),
	"IS_ARRAY":         test1(func(v value) bool { return v.kind == kindArray }),
	"IS_OBJECT":        test1(func(v value) bool { return v.kind == kindObject }),
	"IS_PRIMITIVE":     test1(value.primitive),
	"IS_FINITE_NUMBER": test1(func(v value) bool { return v.kind == kindNumber }),
	"IS_INTEGER": test1(func(v value) bool {
		return v.kind == kindNumber && v.number == math.Trunc(v.number) && math.Abs(v.number) <= math.MaxInt64
	}),
	"IIF": {3, 3, true, func(_ *run, a []value) value {
		if a[0].isTrue() {
			return a[1]
		}
		return a[2]
	}},
	"TOSTRING":        of1(toString),
	"STRINGTOARRAY":   parsed(kindArray),
	"STRINGTOBOOLEAN": parsed(kindBoolean),
	"STRINGTONULL":    parsed(kindNull),
	"STRINGTONUMBER":  parsed(kindNumber),
	"STRINGTOOBJECT":  parsed(kindObject),
	"OBJECTTOARRAY":   ofRun(1, 3, objectToArray),
	"DOCUMENTID":      ofRun(1, 1, documentID),
}

// documentID is the number of a document within its container: the last 8 bytes of
// its resource id, in little-endian order (ResourceId in azure-cosmos-dotnet-v3).
func documentID(r *run, a []value) value {
	rid := r.property(a[0], "_rid")
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(rid.text, "-", "/"))
	if err != nil || len(b) != 16 {
		return undefined
	}
	n := int64(0)
	for _, digit := range slices.Backward(b[8:]) {
		n = n<<8 | int64(digit)
	}
	return exact(n)
}

// toString is the text of a string, the JSON of anything else.
func toString(v value) value {
	if v.kind == kindString {
		return v
	}
	return text(string(v.append(nil)))
}

// parsed is the JSON value of kind k that a string holds.
func parsed(k kind) *function {
	return ofRun(1, 1, func(r *run, a []value) value {
		if a[0].kind != kindString || !r.produce(len(a[0].text)) {
			return undefined
		}
		if p, ok := parseText(a[0].text); ok && p.kind == k {
			return p
		}
		return undefined
	})
}

// objectToArray turns each property into an object of its name and value, which
// are called k and v unless the other arguments say otherwise.
func objectToArray(r *run, a []value) value {
	if a[0].kind != kindObject || !all(kindString, a[1:]) {
		return undefined
	}
	names := [2]string{"k", "v"}
	for i, v := range a[1:] {
		names[i] = v.text
	}
	pairs := arrayBuilder{run: r}
	for quoted, raw := range members(a[0].raw) {
		o := objectBuilder{run: r}
		o.add(names[0], text(unquote(quoted)))
		o.add(names[1], parseValue(raw))
		if !pairs.add(o.value()) {
			break
		}
	}
	return pairs.value()
}

// fold is s for a comparison that ignores case.
func fold(s string) string { return strings.ToLower(strings.ToUpper(s)) }
