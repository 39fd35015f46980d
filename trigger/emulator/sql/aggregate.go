package sql

// aggregates are the aggregate functions. Undefined values do not take part
// (AggregateProjectionTransformer in azure-cosmos-dotnet-v3).
var aggregates = wordSet("AVG COUNT COUNTIF MAKELIST MAKESET MAX MIN SUM")

// accumulator computes one aggregate over the rows of a group.
type accumulator struct {
	function string
	distinct bool // equal values count once
	count    int
	sum      float64
	best     value // so far, of MIN and MAX
	list     []byte
	seen     map[string]bool
	invalid  bool // a value had a type that the aggregate does not accept
}

// add returns how many bytes it keeps of v, besides those made for the row. kept is
// false if it keeps nothing.
func (a *accumulator) add(r *run, v value) (bytes int, kept bool) {
	if !v.defined() {
		return 0, false
	}
	if a.distinct {
		if bytes = a.remember(string(r.canonical(nil, v))); bytes == 0 {
			return 0, false
		}
		kept = true
	}
	switch a.function {
	case "COUNTIF":
		a.count += rank(v.isTrue())
		return bytes, kept
	case "MAKELIST", "MAKESET":
		oldSize := len(a.list)
		if !r.fits(oldSize + v.size()) {
			return bytes, true
		}
		a.list = v.append(append(a.list, "[,"[min(oldSize, 1)]))
		return bytes + len(a.list) - oldSize, true
	}
	a.count++
	switch a.function {
	case "SUM", "AVG":
		a.sum += v.number
		a.invalid = a.invalid || v.kind != kindNumber
	case "MIN":
		kept = a.choose(v, v.primitive() && r.compare(v, a.best) < 0) || kept
	case "MAX":
		kept = a.choose(v, v.primitive() && r.compare(v, a.best) > 0) || kept
	}
	return bytes, kept
}

// remember returns how many bytes it keeps of the key of a value, 0 if the value is not new.
func (a *accumulator) remember(key string) (bytes int) {
	if a.seen[key] {
		return 0
	}
	if a.seen == nil {
		a.seen = make(map[string]bool)
	}
	a.seen[key] = true
	return entryBytes + len(key)
}

func (a *accumulator) choose(v value, better bool) (kept bool) {
	a.invalid = a.invalid || !v.primitive()
	if a.invalid || !better && a.count != 1 {
		return false
	}
	a.best = v
	return true
}

// result returns undefined if there is no value of which to take the average,
// minimum or maximum, or if one had a wrong type.
func (a *accumulator) result() value {
	switch {
	case a.function == "COUNT" || a.function == "COUNTIF":
		return integer(a.count)
	case a.function == "MAKELIST" || a.function == "MAKESET":
		if a.list == nil {
			return value{kind: kindArray, raw: []byte("[]")}
		}
		return value{kind: kindArray, raw: append(a.list, ']')}
	case a.invalid:
		return undefined
	case a.function == "SUM":
		return number(a.sum)
	case a.function == "AVG":
		return number(a.sum / float64(a.count))
	}
	return a.best
}

// overArray is a function that computes an aggregate over the elements of an array.
func overArray(aggregate string) *function {
	return ofArrays(1, 1, func(r *run, a []value) value {
		total := accumulator{function: aggregate}
		for raw := range elements(a[0].raw) {
			total.add(r, parseValue(raw))
		}
		return total.result()
	})
}
