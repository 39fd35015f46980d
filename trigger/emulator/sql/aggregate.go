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

func (a *accumulator) add(v value) {
	if !v.defined() {
		return
	}
	a.count++
	switch a.function {
	case "SUM", "AVG":
		a.sum += v.number
		a.invalid = a.invalid || v.kind != kindNumber
	case "MIN":
		a.choose(v, compare(v, a.best) < 0)
	case "MAX":
		a.choose(v, compare(v, a.best) > 0)
	}
}

func (a *accumulator) choose(v value, better bool) {
	a.invalid = a.invalid || !v.primitive()
	if better || a.count == 1 {
		a.best = v
	}
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
