package sql

import "math"

// operator is an infix operator.
type operator struct {
	text  string
	level int
	apply func(r *run, x, y value) value
}

var (
	opOr  = &operator{"OR", levelOr, pure(or)}
	opAnd = &operator{"AND", levelAnd, pure(and)}
)

// pure is an operator that takes the same time for all values.
func pure(f func(x, y value) value) func(r *run, x, y value) value {
	return func(_ *run, x, y value) value { return f(x, y) }
}

// operators are the infix operators by their text. Equality of any two defined
// values is a boolean; all else is undefined for operands of the wrong types
// (ScalarExpressionEvaluator in azure-cosmos-dotnet-v3).
var operators = map[string]*operator{
	"OR":  opOr,
	"AND": opAnd,
	"=":   {"=", levelComparison, equals},
	"!=":  {"!=", levelComparison, notEquals},
	"<>":  {"!=", levelComparison, notEquals},
	"<":   {"<", levelComparison, ordered(func(c int) bool { return c < 0 })},
	"<=":  {"<=", levelComparison, lessOrEqual},
	">":   {">", levelComparison, ordered(func(c int) bool { return c > 0 })},
	">=":  {">=", levelComparison, greaterOrEqual},
	"<<":  {"<<", levelComparison, bitwise(func(x, y int32) float64 { return float64(x << (y & 31)) })},
	">>":  {">>", levelComparison, bitwise(func(x, y int32) float64 { return float64(x >> (y & 31)) })},
	">>>": {">>>", levelComparison, bitwise(func(x, y int32) float64 { return float64(uint32(x) >> (y & 31)) })},
	"||":  {"||", levelConcat, concat},
	"+":   {"+", levelAdditive, arithmetic(func(x, y float64) float64 { return x + y })},
	"-":   {"-", levelAdditive, arithmetic(func(x, y float64) float64 { return x - y })},
	"&":   {"&", levelAdditive, bitwise(func(x, y int32) float64 { return float64(x & y) })},
	"|":   {"|", levelAdditive, bitwise(func(x, y int32) float64 { return float64(x | y) })},
	"^":   {"^", levelAdditive, bitwise(func(x, y int32) float64 { return float64(x ^ y) })},
	"*":   {"*", levelMultiplicative, arithmetic(func(x, y float64) float64 { return x * y })},
	"/":   {"/", levelMultiplicative, arithmetic(func(x, y float64) float64 { return x / y })},
	"%":   {"%", levelMultiplicative, arithmetic(math.Mod)},
}

func equals(r *run, x, y value) value {
	if !x.defined() || !y.defined() {
		return undefined
	}
	return boolean(r.equal(x, y))
}

func notEquals(r *run, x, y value) value { return applyUnary("NOT", equals(r, x, y)) }

var (
	lessOrEqual    = ordered(func(c int) bool { return c <= 0 })
	greaterOrEqual = ordered(func(c int) bool { return c >= 0 })
)

// ordered compares two values. The result is undefined if their types differ or are
// not primitive.
func ordered(holds func(int) bool) func(r *run, x, y value) value {
	return func(r *run, x, y value) value {
		if x.kind != y.kind || !x.primitive() {
			return undefined
		}
		return boolean(holds(r.compare(x, y)))
	}
}

// and returns false if either operand is false, even if the other is undefined.
func and(x, y value) value {
	if x.kind == kindBoolean && !x.truth || y.kind == kindBoolean && !y.truth {
		return boolean(false)
	}
	return both(x, y)
}

// or returns true if either operand is true, even if the other is undefined.
func or(x, y value) value {
	if x.isTrue() || y.isTrue() {
		return boolean(true)
	}
	return both(x, y)
}

// both returns x if both operands are booleans; the caller knows that they are equal.
func both(x, y value) value {
	if x.kind != kindBoolean || y.kind != kindBoolean {
		return undefined
	}
	return x
}

func concat(r *run, x, y value) value {
	if x.kind != kindString || y.kind != kindString || !r.produce(len(x.text)+len(y.text)) {
		return undefined
	}
	return text(x.text + y.text)
}

func arithmetic(f func(x, y float64) float64) func(r *run, x, y value) value {
	return pure(func(x, y value) value {
		if x.kind != kindNumber || y.kind != kindNumber {
			return undefined
		}
		return number(f(x.number, y.number))
	})
}

func bitwise(f func(x, y int32) float64) func(r *run, x, y value) value {
	return arithmetic(func(x, y float64) float64 { return f(toInt32(x), toInt32(y)) })
}

// toInt32 keeps the low 32 bits of the whole part, as JavaScript does.
func toInt32(n float64) int32 {
	return int32(uint32(int64(math.Mod(math.Trunc(n), 1<<32))))
}

func applyUnary(op string, x value) value {
	switch {
	case op == "NOT" && x.kind == kindBoolean:
		return boolean(!x.truth)
	case op == "NOT" || x.kind != kindNumber:
		return undefined
	case op == "-":
		return x.negated()
	case op == "~":
		return number(float64(^toInt32(x.number)))
	}
	return x
}

// negated is -v in v's text.
func (v value) negated() value {
	n := number(-v.number)
	switch {
	case v.raw == nil:
	case v.raw[0] == '-':
		n.raw = v.raw[1:]
	default:
		n.raw = append([]byte{'-'}, v.raw...)
	}
	return n
}
