package sql

import "math"

// A result that is not a finite number is undefined.
var mathFunctions = map[string]*function{
	"ABS":     ofNumber(math.Abs),
	"ACOS":    ofNumber(math.Acos),
	"ASIN":    ofNumber(math.Asin),
	"ATAN":    ofNumber(math.Atan),
	"CEILING": ofNumber(math.Ceil),
	"COS":     ofNumber(math.Cos),
	"COT":     ofNumber(func(x float64) float64 { return 1 / math.Tan(x) }),
	"DEGREES": ofNumber(func(x float64) float64 { return 180 / math.Pi * x }),
	"EXP":     ofNumber(math.Exp),
	"FLOOR":   ofNumber(math.Floor),
	"LOG10":   ofNumber(math.Log10),
	"RADIANS": ofNumber(func(x float64) float64 { return math.Pi * x / 180 }),
	"ROUND":   ofNumber(math.Round),
	"SIGN":    ofNumber(sign),
	"SIN":     ofNumber(math.Sin),
	"SQRT":    ofNumber(math.Sqrt),
	"SQUARE":  ofNumber(func(x float64) float64 { return x * x }),
	"TAN":     ofNumber(math.Tan),
	"TRUNC":   ofNumber(math.Trunc),
	"ATN2":    ofNumbers(2, 2, func(a []float64) float64 { return math.Atan2(a[0], a[1]) }),
	"LOG":     ofNumbers(1, 2, logarithm),
	"RAND":    ofRun(0, 0, func(r *run, _ []value) value { return number(r.random()) }),
	"PI":      ofAny(0, 0, func([]value) value { return number(math.Pi) }),
	"POWER":   ofNumbers(2, 2, func(a []float64) float64 { return math.Pow(a[0], a[1]) }),
	"NUMBERBIN": ofNumbers(1, 2, func(a []float64) float64 {
		size := append(a, 1)[1]
		return math.Floor(a[0]/size) * size
	}),

	"INTADD":           ofIntegers(func(x, y int64) (int64, bool) { return x + y, true }),
	"INTSUB":           ofIntegers(func(x, y int64) (int64, bool) { return x - y, true }),
	"INTMUL":           ofIntegers(func(x, y int64) (int64, bool) { return x * y, true }),
	"INTDIV":           ofIntegers(func(x, y int64) (int64, bool) { return x / nonZero(y), y != 0 }),
	"INTMOD":           ofIntegers(func(x, y int64) (int64, bool) { return x % nonZero(y), y != 0 }),
	"INTBITAND":        ofIntegers(func(x, y int64) (int64, bool) { return x & y, true }),
	"INTBITOR":         ofIntegers(func(x, y int64) (int64, bool) { return x | y, true }),
	"INTBITXOR":        ofIntegers(func(x, y int64) (int64, bool) { return x ^ y, true }),
	"INTBITLEFTSHIFT":  ofIntegers(func(x, y int64) (int64, bool) { return x << (y & 63), true }),
	"INTBITRIGHTSHIFT": ofIntegers(func(x, y int64) (int64, bool) { return x >> (y & 63), true }),
	"INTBITNOT": of1(func(v value) value {
		n, ok := v.integer()
		if !ok {
			return undefined
		}
		return exact(^n)
	}),
}

func ofNumber(f func(float64) float64) *function {
	return of1(func(v value) value {
		if v.kind != kindNumber {
			return undefined
		}
		return number(f(v.number))
	})
}

func ofNumbers(minArgs, maxArgs int, f func([]float64) float64) *function {
	return ofAny(minArgs, maxArgs, func(a []value) value {
		if !all(kindNumber, a) {
			return undefined
		}
		numbers := make([]float64, len(a))
		for i, v := range a {
			numbers[i] = v.number
		}
		return number(f(numbers))
	})
}

// ofIntegers is a function of two 64-bit integers; it may have no result.
func ofIntegers(f func(x, y int64) (int64, bool)) *function {
	return ofAny(2, 2, func(a []value) value {
		x, okX := a[0].integer()
		y, okY := a[1].integer()
		if !okX || !okY {
			return undefined
		}
		n, ok := f(x, y)
		if !ok {
			return undefined
		}
		return exact(n)
	})
}

func nonZero(n int64) int64 {
	if n == 0 {
		return 1
	}
	return n
}

func sign(x float64) float64 {
	if x == 0 {
		return 0
	}
	return math.Copysign(1, x)
}

// logarithm is natural, or to the base of the second argument.
func logarithm(a []float64) float64 {
	if len(a) == 1 {
		return math.Log(a[0])
	}
	return math.Log(a[0]) / math.Log(a[1])
}
