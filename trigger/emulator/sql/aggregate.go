package sql

// aggregates are the aggregate functions. Undefined values do not take part
// (AggregateProjectionTransformer in azure-cosmos-dotnet-v3).
var aggregates = wordSet("AVG COUNT MAX MIN SUM")

// accumulator computes one aggregate over the rows of a group.
type accumulator struct {
	function string
	count    int
	sum      float64
	best     value // so far, of MIN and MAX
	invalid  bool  // a value had a type that the aggregate does not accept
}

// add reports whether it keeps v.
func (a *accumulator) add(r *run, v value) (kept bool) {
	if !v.defined() {
		return false
	}
	a.count++
	switch a.function {
	case "SUM", "AVG":
		a.sum += v.number
		a.invalid = a.invalid || v.kind != kindNumber
	case "MIN":
		return a.choose(v, v.primitive() && r.compare(v, a.best) < 0)
	case "MAX":
		return a.choose(v, v.primitive() && r.compare(v, a.best) > 0)
	}
	return false
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
	case a.function == "COUNT":
		return integer(a.count)
	case a.invalid:
		return undefined
	case a.function == "SUM":
		return number(a.sum)
	case a.function == "AVG":
		return number(a.sum / float64(a.count))
	}
	return a.best
}
