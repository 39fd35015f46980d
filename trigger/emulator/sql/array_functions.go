package sql

import "slices"

var arrayFunctions = map[string]*function{
	"ARRAY_CONCAT":       ofArrays(2, -1, arrayConcat),
	"ARRAY_CONTAINS":     ofRun(2, 3, arrayContains),
	"ARRAY_CONTAINS_ANY": ofRun(2, -1, func(r *run, a []value) value { return arrayContainsSome(r, a, true) }),
	"ARRAY_CONTAINS_ALL": ofRun(2, -1, func(r *run, a []value) value { return arrayContainsSome(r, a, false) }),
	"ARRAY_LENGTH":       ofArrays(1, 1, func(_ *run, a []value) value { return integer(a[0].length()) }),
	"ARRAY_SLICE":        ofRun(2, 3, arraySlice),
	"SETINTERSECT": ofArrays(2, 2, func(r *run, a []value) value {
		other := r.elementKeys(a[1])
		return r.distinctElements(a[:1], func(key string) bool { return other[key] })
	}),
	"SETUNION": ofArrays(2, 2, func(r *run, a []value) value {
		return r.distinctElements(a, func(string) bool { return true })
	}),
	"SETDIFFERENCE": ofArrays(2, 2, func(r *run, a []value) value {
		other := r.elementKeys(a[1])
		return r.distinctElements(a[:1], func(key string) bool { return !other[key] })
	}),
	"CHOOSE":       ofAny(2, -1, choose),
	"ARRAY_AVG":    overArray("AVG"),
	"ARRAY_MAX":    overArray("MAX"),
	"ARRAY_MIN":    overArray("MIN"),
	"ARRAY_SUM":    overArray("SUM"),
	"ARRAY_MEDIAN": ofArrays(1, 1, median),
}

// ofArrays is a function of arrays only.
func ofArrays(minArgs, maxArgs int, f func(r *run, a []value) value) *function {
	return ofRun(minArgs, maxArgs, func(r *run, a []value) value {
		if !all(kindArray, a) {
			return undefined
		}
		return f(r, a)
	})
}

// length is the number of elements of an array.
func (v value) length() int {
	n := 0
	for range elements(v.raw) {
		n++
	}
	return n
}

func arrayConcat(r *run, a []value) value {
	b := arrayBuilder{run: r}
	for _, v := range a {
		if !b.addAll(v) {
			break
		}
	}
	return b.value()
}

// elementKeys are the canonical texts of an array's elements.
func (r *run) elementKeys(array value) map[string]bool {
	keys := make(map[string]bool)
	for raw := range elements(array.raw) {
		key := string(r.canonical(nil, parseValue(raw)))
		if !keys[key] && !r.produceAll(entryBytes+len(key)) {
			break
		}
		keys[key] = true
	}
	return keys
}

// distinctElements is the array of the elements that are wanted, of equal ones the
// first.
func (r *run) distinctElements(arrays []value, wanted func(key string) bool) value {
	b, seen := arrayBuilder{run: r}, make(map[string]bool)
	for _, array := range arrays {
		for raw := range elements(array.raw) {
			v := parseValue(raw)
			key := string(r.canonical(nil, v))
			if seen[key] || !wanted(key) {
				continue
			}
			seen[key] = true
			if !r.produceAll(entryBytes+len(key)) || !b.add(v) {
				return undefined
			}
		}
	}
	return b.value()
}

// arrayContains looks for an element; true as third argument lets an object
// match one that has at least its properties.
func arrayContains(r *run, a []value) value {
	if a[0].kind != kindArray || len(a) == 3 && a[2].kind != kindBoolean {
		return undefined
	}
	partial := len(a) == 3 && a[2].truth
	wanted := string(r.canonical(nil, a[1]))
	for raw := range elements(a[0].raw) {
		v := parseValue(raw)
		if v.kind != a[1].kind {
			continue
		}
		if string(r.canonical(nil, v)) == wanted || partial && r.includes(v, a[1]) {
			return boolean(r.err == nil)
		}
	}
	return boolean(false)
}

// includes reports whether object v has every property of part.
func (r *run) includes(v, part value) bool {
	if v.kind != kindObject || part.kind != kindObject {
		return false
	}
	for name, raw := range members(part.raw) {
		if !r.equal(r.property(v, unquote(name)), parseValue(raw)) {
			return false
		}
	}
	return true
}

// arrayContainsSome reports whether any, or else all, of the other arguments are in
// the array.
func arrayContainsSome(r *run, a []value, sufficient bool) value {
	if a[0].kind != kindArray {
		return undefined
	}
	keys := r.elementKeys(a[0])
	for _, v := range a[1:] {
		if keys[string(r.canonical(nil, v))] == sufficient {
			return boolean(sufficient)
		}
	}
	return boolean(!sufficient)
}

// arraySlice takes elements from a start, which counts from the end if it is
// negative.
func arraySlice(r *run, a []value) value {
	start, ok := a[1].integer()
	if a[0].kind != kindArray || !ok {
		return undefined
	}
	length := a[0].length()
	if start < 0 {
		start += int64(length)
	}
	first, end := clamp(start, length), length
	if len(a) == 3 {
		n, ok := a[2].integer()
		if !ok {
			return undefined
		}
		end = first + clamp(n, length-first)
	}
	b, i := arrayBuilder{run: r}, 0
	for raw := range elements(a[0].raw) {
		if i >= end || i >= first && !b.add(parseValue(raw)) {
			break
		}
		i++
	}
	return b.value()
}

// median is the middle of an array of numbers, or half-way between the two middle ones.
func median(_ *run, a []value) value {
	numbers := numbersOf(a[0])
	if len(numbers) == 0 {
		return undefined
	}
	slices.Sort(numbers)
	middle := len(numbers) / 2
	if len(numbers)%2 == 1 {
		return number(numbers[middle])
	}
	return number((numbers[middle-1] + numbers[middle]) / 2)
}

// choose is the argument at the 1-based index that the first one gives.
func choose(a []value) value {
	if i, ok := a[0].integer(); ok && i >= 1 && i < int64(len(a)) {
		return a[i]
	}
	return undefined
}
