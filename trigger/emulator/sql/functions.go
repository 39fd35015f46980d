package sql

import (
	"fmt"
	"maps"
	"slices"
)

// function is a built-in function.
type function struct {
	least, most int  // arguments; most is -1 for any number
	total       bool // it is called even if an argument is undefined
	apply       func(r *run, a []value) value
}

// functions are the built-in functions by their names in upper case, see
// https://learn.microsoft.com/azure/cosmos-db/nosql/query/system-functions.
var functions = merge(typeFunctions, stringFunctions, arrayFunctions, mathFunctions, timeFunctions, vectorFunctions, spatialFunctions)

func merge(groups ...map[string]*function) map[string]*function {
	merged := make(map[string]*function)
	for _, group := range groups {
		maps.Copy(merged, group)
	}
	return merged
}

// unsupported are the functions of the service that are refused, and the feature to
// which each belongs.
var unsupported = map[string]string{
	"FULLTEXTCONTAINS": "full-text search", "FULLTEXTCONTAINSALL": "full-text search", "FULLTEXTCONTAINSANY": "full-text search",
	"FULLTEXTSCORE": "full-text search", "RRF": "hybrid search",
	"ALL": "quantifiers", "FIRST": "FIRST of a subquery", "LAST": "LAST of a subquery",
	"ST_AREA": "areas of shapes", "ST_INTERSECTS": "intersections of shapes", "ST_ISVALIDDETAILED": "reasons why a shape is not valid",
}

// Functions are the names of the functions and aggregates in upper case, in order.
func Functions() []string {
	return slices.Sorted(maps.Keys(merge(functions, aggregateCalls())))
}

// Unsupported are the functions that are refused by name, and the feature to which
// each belongs.
func Unsupported() map[string]string { return maps.Clone(unsupported) }

func aggregateCalls() map[string]*function {
	calls := make(map[string]*function)
	for name := range aggregates {
		calls[name] = nil
	}
	return calls
}

// arity says how many arguments a function takes.
func arity(minArgs, maxArgs int) string {
	switch {
	case maxArgs < 0:
		return fmt.Sprintf("at least %d argument(s)", minArgs)
	case minArgs == maxArgs:
		return fmt.Sprintf("%d argument(s)", minArgs)
	}
	return fmt.Sprintf("%d to %d arguments", minArgs, maxArgs)
}

// of1 is a function of one argument of any type.
func of1(f func(value) value) *function {
	return &function{1, 1, false, func(_ *run, a []value) value { return f(a[0]) }}
}

// test1 is a predicate on any one argument, undefined included.
func test1(f func(value) bool) *function {
	return &function{1, 1, true, func(_ *run, a []value) value { return boolean(f(a[0])) }}
}

// ofAny is a function that checks the types of its arguments itself.
func ofAny(minArgs, maxArgs int, f func(a []value) value) *function {
	return &function{minArgs, maxArgs, false, func(_ *run, a []value) value { return f(a) }}
}

// ofRun is a function that counts its own work or bytes: it may take longer, or make
// more, than its arguments are long.
func ofRun(minArgs, maxArgs int, f func(r *run, a []value) value) *function {
	return &function{minArgs, maxArgs, false, f}
}

// all reports whether every value is of kind k.
func all(k kind, values []value) bool {
	for _, v := range values {
		if v.kind != k {
			return false
		}
	}
	return true
}
