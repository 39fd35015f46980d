package sql

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// run is one execution of a query.
type run struct {
	parameters []value // by slot
	now        time.Time
	random     func() float64
	patterns   map[string]*pattern // compiled LIKE and RegexMatch patterns
	document   int                 // number of the document at hand, from 1
	combined   int                 // values bound by JOINs and subqueries of the document at hand
	err        error               // the first failure; evaluation continues with undefined

	ctx           context.Context
	work, checked int64 // work so far, and when ctx was last looked at
	most          int64 // work
	made          int   // bytes of values made for the row at hand and the rows around it
	kept          int   // bytes that subqueries keep over their rows
	held          int   // bytes that the query keeps over documents
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
	Now     time.Time       // of the GetCurrent… functions
	Random  func() float64  // of RAND, in [0, 1); nil = math/rand
	Context context.Context // ends the run with its cause; nil = never
	Work    int64           // at most; 0 = the greatest that a run may take
}

func (q *Query) newRun(parameters map[string]json.RawMessage, env Env) (*run, error) {
	r := &run{now: env.Now.UTC(), patterns: make(map[string]*pattern), ctx: env.Context, most: cmp.Or(env.Work, maxWork)}
	if r.random = env.Random; r.random == nil {
		r.random = rand.Float64
	}
	if r.ctx == nil {
		r.ctx = context.Background()
	}
	for _, name := range q.parameters {
		raw, ok := parameters[name]
		if !ok {
			r.parameters = append(r.parameters, undefined)
			continue
		}
		v, ok := parseText(string(raw))
		if !ok {
			return nil, &Error{Code: codeValue, Message: fmt.Sprintf("The value of the query parameter '%s' is not JSON of at most %d levels.", name, maxNesting)}
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

func (e *property) eval(r *row) value {
	parent := e.of.eval(r)
	if e.computed != nil {
		return e.computed.evaluate(r.run, parent)
	}
	return r.run.property(parent, e.name)
}

func (e *index) eval(r *row) value {
	parent, key := e.of.eval(r), e.by.eval(r)
	if key.kind == kindString {
		return r.run.property(parent, key.text)
	}
	if i, ok := key.integer(); ok {
		return r.run.element(parent, i)
	}
	return undefined
}

func (e *unary) eval(r *row) value {
	r.run.spend(expressionWork)
	return applyUnary(e.op, e.x.eval(r))
}

// eval does not evaluate the second operand of AND and OR if the first one decides.
func (e *binary) eval(r *row) value {
	if !r.run.spend(expressionWork) {
		return undefined
	}
	x := e.x.eval(r)
	if x.kind == kindBoolean && (e.op == opAnd && !x.truth || e.op == opOr && x.truth) {
		return x
	}
	return e.op.apply(r.run, x, e.y.eval(r))
}

func (e *coalesce) eval(r *row) value {
	r.run.spend(expressionWork)
	if x := e.x.eval(r); x.defined() {
		return x
	}
	return e.y.eval(r)
}

func (e *conditional) eval(r *row) value {
	r.run.spend(expressionWork)
	if e.x.eval(r).isTrue() {
		return e.y.eval(r)
	}
	return e.z.eval(r)
}

func (e *between) eval(r *row) value {
	x := e.x.eval(r)
	v := and(greaterOrEqual(r.run, x, e.low.eval(r)), lessOrEqual(r.run, x, e.high.eval(r)))
	return negateIf(e.not, v)
}

func (e *in) eval(r *row) value {
	x := e.x.eval(r)
	if !x.defined() {
		return undefined
	}
	for _, item := range e.list {
		if !r.run.spend(expressionWork) {
			return undefined
		}
		if r.run.equal(x, item.eval(r)) {
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
	return negateIf(e.not, r.run.match(p, x.text))
}

func negateIf(not bool, v value) value {
	if not {
		return applyUnary("NOT", v)
	}
	return v
}

func (e *arrayLiteral) eval(r *row) value {
	b := arrayBuilder{run: r.run}
	for _, item := range e.items {
		if !b.add(item.eval(r)) {
			break
		}
	}
	return b.value()
}

func (e *objectLiteral) eval(r *row) value {
	o := objectBuilder{run: r.run}
	for i, x := range e.values {
		if !o.add(e.names[i], x.eval(r)) {
			break
		}
	}
	return o.value()
}

// objectBuilder makes an object of the defined values that it is given. It fails the
// run when the object is too large.
type objectBuilder struct {
	run *run
	raw []byte
}

// add returns false if the run must stop.
func (o *objectBuilder) add(name string, v value) bool {
	if !o.run.spend(expressionWork) || !v.defined() {
		return o.run.err == nil
	}
	if !o.run.fits(len(o.raw) + len(name) + v.size()) {
		return false
	}
	o.raw = append(o.raw, "{,"[min(len(o.raw), 1)])
	o.raw = append(appendQuoted(o.raw, name), ':')
	o.raw = v.append(o.raw)
	return true
}

// value returns the object, or undefined if the run must stop.
func (o *objectBuilder) value() value {
	if o.raw == nil {
		o.raw = []byte{'{'}
	}
	if !o.run.produce(len(o.raw)) {
		return undefined
	}
	return value{kind: kindObject, raw: append(o.raw, '}')}
}

// arrayBuilder makes an array of the defined values that it is given. It fails the
// run when the array is too large.
type arrayBuilder struct {
	run *run
	raw []byte
}

// add returns false if the run must stop.
func (a *arrayBuilder) add(v value) bool {
	if !a.run.spend(expressionWork) || !v.defined() {
		return a.run.err == nil
	}
	if !a.run.fits(len(a.raw) + v.size()) {
		return false
	}
	oldLength := len(a.raw)
	a.raw = append(a.raw, "[,"[min(len(a.raw), 1)])
	a.raw = v.append(a.raw)
	a.run.kept += len(a.raw) - oldLength
	return a.run.room()
}

// addAll adds the elements of an array.
func (a *arrayBuilder) addAll(v value) bool {
	for raw := range elements(v.raw) {
		if !a.add(value{kind: kindArray, raw: raw}) { // of any kind: only its text counts
			return false
		}
	}
	return true
}

// value returns the array, or undefined if the run must stop.
func (a *arrayBuilder) value() value {
	if a.raw == nil {
		a.raw = []byte{'['}
	} else {
		a.run.kept -= len(a.raw)
	}
	if !a.run.produce(len(a.raw)) {
		return undefined
	}
	return value{kind: kindArray, raw: append(a.raw, ']')}
}

// eval returns undefined if an argument is undefined, unless the function is total.
func (e *call) eval(r *row) value {
	if e.aggregate {
		return r.aggregates[e.slot]
	}
	if !r.run.spend(expressionWork) {
		return undefined
	}
	arguments := make([]value, len(e.arguments))
	size := 0
	for i, x := range e.arguments {
		v := x.eval(r)
		if !v.defined() && !e.function.total {
			return undefined
		}
		arguments[i] = v
		size += v.size()
	}
	if !r.run.spend(size) {
		return undefined
	}
	v := e.function.apply(r.run, append(arguments, e.bound...))
	if v.kind == kindString && !r.run.produce(len(v.text)) {
		return undefined
	}
	return v
}

// eval of a scalar subquery returns its only value, or undefined if it has none. The
// run fails if there are several.
func (e *subquery) eval(r *row) value {
	if !r.run.spend(expressionWork) {
		return undefined
	}
	switch e.form {
	case "EXISTS":
		for range e.query.values(r, nil) {
			return boolean(true)
		}
		return boolean(false)
	case "ARRAY":
		all := arrayBuilder{run: r.run}
		for v := range e.query.values(r, nil) {
			if !all.add(v) {
				break
			}
		}
		return all.value()
	}
	found, made := undefined, r.run.made
	for v := range e.query.values(r, nil) {
		if found.defined() {
			return r.run.fail(&Error{Code: codeValue, Message: "The cardinality of a scalar subquery result set cannot be greater than one."})
		}
		found, made = v, r.run.made
	}
	r.run.made = max(r.run.made, made) // the row of the value has ended, the value lives on
	return found
}
