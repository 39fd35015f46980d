package sql

import "slices"

var arrayFunctions = map[string]*function{
	"ARRAY_CONCAT":       ofArrays(2, -1, func(lists [][]value) value { return array(slices.Concat(lists...)) }),
	"ARRAY_CONTAINS":     ofAny(2, 3, arrayContains),
	"ARRAY_CONTAINS_ANY": ofAny(2, -1, func(a []value) value { return arrayContainsSome(a, slices.ContainsFunc) }),
	"ARRAY_CONTAINS_ALL": ofAny(2, -1, func(a []value) value { return arrayContainsSome(a, containsAll) }),
	"ARRAY_LENGTH":       ofArrays(1, 1, func(lists [][]value) value { return integer(len(lists[0])) }),
	"ARRAY_SLICE":        ofAny(2, 3, arraySlice),
	"SETINTERSECT": ofArrays(2, 2, func(l [][]value) value {
		return array(unique(slices.DeleteFunc(l[0], func(v value) bool { return !contains(l[1], v) })))
	}),
	"SETUNION": ofArrays(2, 2, func(l [][]value) value { return array(unique(slices.Concat(l...))) }),
	"SETDIFFERENCE": ofArrays(2, 2, func(l [][]value) value {
		return array(unique(slices.DeleteFunc(l[0], func(v value) bool { return contains(l[1], v) })))
	}),
	"CHOOSE": ofAny(2, -1, choose),
}

// ofArrays is a function of the elements of its arguments.
func ofArrays(least, most int, f func(lists [][]value) value) *function {
	return ofAny(least, most, func(a []value) value {
		if !all(kindArray, a) {
			return undefined
		}
		lists := make([][]value, len(a))
		for i, v := range a {
			lists[i] = v.items()
		}
		return f(lists)
	})
}

func contains(list []value, v value) bool {
	return slices.ContainsFunc(list, func(x value) bool { return equal(x, v) })
}

func containsAll(list []value, f func(value) bool) bool {
	return !slices.ContainsFunc(list, func(v value) bool { return !f(v) })
}

// unique keeps the first of equal values.
func unique(list []value) []value {
	var kept []value
	for _, v := range list {
		if !contains(kept, v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// arrayContains looks for an element; true as third argument lets an object
// match one that has at least its properties.
func arrayContains(a []value) value {
	if a[0].kind != kindArray || len(a) == 3 && a[2].kind != kindBoolean {
		return undefined
	}
	partial := len(a) == 3 && a[2].truth
	for raw := range elements(a[0].raw) {
		v := parseValue(raw)
		if equal(v, a[1]) || partial && includes(v, a[1]) {
			return boolean(true)
		}
	}
	return boolean(false)
}

// includes reports whether object v has every property of part.
func includes(v, part value) bool {
	if v.kind != kindObject || part.kind != kindObject {
		return false
	}
	for name, raw := range members(part.raw) {
		if !equal(v.property(unquote(name)), parseValue(raw)) {
			return false
		}
	}
	return true
}

// arrayContainsSome applies quantifier to the other arguments: any or all of them
// must be in the array.
func arrayContainsSome(a []value, quantifier func([]value, func(value) bool) bool) value {
	if a[0].kind != kindArray {
		return undefined
	}
	list := a[0].items()
	return boolean(quantifier(a[1:], func(v value) bool { return contains(list, v) }))
}

// arraySlice takes elements from a start, which counts from the end if it is
// negative.
func arraySlice(a []value) value {
	start, ok := a[1].integer()
	if a[0].kind != kindArray || !ok {
		return undefined
	}
	list := a[0].items()
	if start < 0 {
		start += int64(len(list))
	}
	list = list[clamp(start, len(list)):]
	if len(a) == 3 {
		n, ok := a[2].integer()
		if !ok {
			return undefined
		}
		list = list[:clamp(n, len(list))]
	}
	return array(list)
}

// choose is the argument at the 1-based index that the first one gives.
func choose(a []value) value {
	if i, ok := a[0].integer(); ok && i >= 1 && i < int64(len(a)) {
		return a[i]
	}
	return undefined
}
