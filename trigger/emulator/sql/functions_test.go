package sql

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// allCalls are the calls of the tables of every file of functions.
func allCalls() []expressionCase {
	return slices.Concat(typeCalls, stringCalls, arrayCalls, mathCalls, timeCalls, vectorCalls, spatialCalls)
}

// firstCalls returns the first call of each function, by name in upper case.
func firstCalls() map[string]string {
	first := make(map[string]string)
	for _, c := range slices.Backward(allCalls()) {
		name, _, _ := strings.Cut(c.expr, "(")
		first[strings.ToUpper(name)] = c.expr
	}
	return first
}

func TestEveryFunctionIsCalled(t *testing.T) {
	first := firstCalls()
	for name := range functions {
		if first[name] == "" {
			t.Errorf("no test calls %s", name)
		}
	}
}

// TestUndefinedArguments replaces each argument of each function by a missing
// property: the result is undefined unless the function is total.
func TestUndefinedArguments(t *testing.T) {
	first := firstCalls()
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		q, err := Parse("SELECT VALUE " + first[name] + " FROM c")
		if err != nil {
			t.Fatal(err)
		}
		c := q.statement.value.(*call)
		for i, was := range c.arguments {
			c.arguments[i] = &property{of: &name0, name: "none"}
			got, err := q.Run(sequence([]string{exprDocument}), nil, testEnv)
			if !c.function.total && len(got) > 0 || err != nil {
				t.Errorf("%s with argument %d undefined is %s, %v", first[name], i+1, got, err)
			}
			c.arguments[i] = was
		}
	}
}

// name0 is the first alias of a query.
var name0 = name{text: "c"}
