package sql

import (
	"encoding/json"
	"fmt"
	"time"
)

// run is one execution of a query.
type run struct {
	parameters []value // by slot
	now        time.Time
	patterns   map[string]*pattern // compiled LIKE and RegexMatch patterns
	document   int                 // number of the document at hand, from 1
	combined   int                 // values bound by JOINs and subqueries of the document at hand
	err        error               // the first failure; evaluation continues with undefined
}

// maxCombined stops a query whose JOINs multiply large arrays.
const maxCombined = 1_000_000

// combine counts a value bound by a JOIN or subquery. It returns false if the query
// must stop.
func (r *run) combine() bool {
	if r.combined++; r.combined > maxCombined {
		r.fail(&Error{Code: codeValue, Message: fmt.Sprintf("The JOINs and subqueries of the query combine more than %d values of one document.", maxCombined)})
	}
	return r.err == nil
}

// Env is the environment of a run.
type Env struct {
	Now time.Time // of the GetCurrent… functions
}

func (q *Query) newRun(parameters map[string]json.RawMessage, env Env) (*run, error) {
	r := &run{now: env.Now.UTC(), patterns: make(map[string]*pattern)}
	for _, name := range q.parameters {
		raw, ok := parameters[name]
		if !ok {
			return nil, &Error{Code: codeValue, Message: "The query parameter '" + name + "' is not supplied."}
		}
		v, ok := parseText(string(raw))
		if !ok {
			return nil, &Error{Code: codeValue, Message: "The value of the query parameter '" + name + "' is not JSON."}
		}
		r.parameters = append(r.parameters, v)
	}
	return r, nil
}

func (r *run) fail(err error) value {
	if r.err == nil {
		r.err = err
	}
	return undefined
}

// row binds the aliases of a query to values.
type row struct {
	run        *run
	slots      []value
	aggregates []value // of the statement whose select list is evaluated
}

func (e *literal) eval(*row) value { return e.value }

func (e *parameter) eval(r *row) value { return r.run.parameters[e.slot] }

func (e *name) eval(r *row) value { return r.slots[e.slot] }

func (e *property) eval(r *row) value { return e.of.eval(r).property(e.name) }

func (e *index) eval(r *row) value {
	of, by := e.of.eval(r), e.by.eval(r)
	if by.kind == kindString {
		return of.property(by.text)
	}
	if i, ok := by.integer(); ok {
		return of.element(i)
	}
	return undefined
}

func (e *unary) eval(r *row) value { return applyUnary(e.op, e.x.eval(r)) }

// eval does not evaluate the second operand of AND and OR if the first one decides.
func (e *binary) eval(r *row) value {
	x := e.x.eval(r)
	if x.kind == kindBoolean && (e.op == opAnd && !x.truth || e.op == opOr && x.truth) {
		return x
	}
	return e.op.apply(x, e.y.eval(r))
}

func (e *coalesce) eval(r *row) value {
	if x := e.x.eval(r); x.defined() {
		return x
	}
	return e.y.eval(r)
}

func (e *conditional) eval(r *row) value {
	if e.x.eval(r).isTrue() {
		return e.y.eval(r)
	}
	return e.z.eval(r)
}

func (e *between) eval(r *row) value {
	x := e.x.eval(r)
	v := and(greaterOrEqual(x, e.low.eval(r)), lessOrEqual(x, e.high.eval(r)))
	return negateIf(e.not, v)
}

func (e *in) eval(r *row) value {
	x := e.x.eval(r)
	if !x.defined() {
		return undefined
	}
	for _, item := range e.list {
		if equal(x, item.eval(r)) {
			return boolean(!e.not)
		}
	}
	return boolean(e.not)
}

func (e *like) eval(r *row) value {
	x, pattern := e.x.eval(r), e.pattern.eval(r)
	if x.kind != kindString || pattern.kind != kindString {
		return undefined
	}
	p, err := r.run.likePattern(pattern.text, e.escape)
	if err != nil {
		return r.run.fail(err)
	}
	return negateIf(e.not, boolean(p.match(x.text)))
}

func negateIf(not bool, v value) value {
	if not {
		return applyUnary("NOT", v)
	}
	return v
}

func (e *arrayLiteral) eval(r *row) value {
	items := make([]value, len(e.items))
	for i, item := range e.items {
		items[i] = item.eval(r)
	}
	return array(items)
}

func (e *objectLiteral) eval(r *row) value {
	var o objectBuilder
	for i, x := range e.values {
		o.add(e.names[i], x.eval(r))
	}
	return o.value()
}

// objectBuilder makes an object of the defined values that it is given.
type objectBuilder struct{ raw []byte }

func (o *objectBuilder) add(name string, v value) {
	if !v.defined() {
		return
	}
	o.raw = append(o.raw, "{,"[min(len(o.raw), 1)])
	o.raw = append(appendQuoted(o.raw, name), ':')
	o.raw = v.append(o.raw)
}

func (o *objectBuilder) value() value {
	if o.raw == nil {
		o.raw = []byte{'{'}
	}
	return value{kind: kindObject, raw: append(o.raw, '}')}
}

// eval returns undefined if an argument is undefined, unless the function is total.
func (e *call) eval(r *row) value {
	if e.aggregate {
		return r.aggregates[e.slot]
	}
	arguments := make([]value, len(e.arguments))
	for i, x := range e.arguments {
		v := x.eval(r)
		if !v.defined() && !e.function.total {
			return undefined
		}
		arguments[i] = v
	}
	return e.function.apply(r.run, arguments)
}

// eval of a scalar subquery returns its only value, or undefined if it has none. The
// run fails if there are several.
func (e *subquery) eval(r *row) value {
	var found []value
	for v := range e.query.values(r, nil) {
		if e.form == "EXISTS" {
			return boolean(true)
		}
		found = append(found, v)
	}
	switch {
	case e.form == "EXISTS":
		return boolean(false)
	case e.form == "ARRAY":
		return array(found)
	case len(found) > 1:
		return r.run.fail(&Error{Code: codeValue, Message: "The cardinality of a scalar subquery result set cannot be greater than one."})
	case len(found) == 0:
		return undefined
	}
	return found[0]
}
