package sql

import (
	"cmp"
	"iter"
	"slices"
	"sort"
)

// values yields the results of s for a row of the statement around it. If documents
// is nil, s is a subquery; else it is the whole query or its first input.
func (s *statement) values(r *row, documents iter.Seq[value]) iter.Seq[value] {
	return func(yield func(value) bool) {
		skip, end, err := s.window(r.run)
		if err != nil {
			r.run.fail(err)
			return
		}
		if end == 0 {
			return
		}
		n, kept := 0, r.run.kept
		for v := range s.unlimited(r, documents) {
			n++
			if n > skip && !yield(v) || n >= end {
				break
			}
		}
		if documents == nil {
			r.run.kept = kept
		}
	}
}

// window returns how many results TOP or OFFSET LIMIT skip, and the number of the
// last one. If s has neither, end is the greatest int.
func (s *statement) window(r *run) (skip, end int, err error) {
	end = int(^uint(0) >> 1)
	if s.top != nil {
		end, err = s.top.value(r)
		return 0, end, err
	}
	if s.limit == nil {
		return 0, end, nil
	}
	if skip, err = s.offset.value(r); err != nil {
		return 0, 0, err
	}
	end, err = s.limit.value(r)
	return skip, skip + end, err
}

func (c *count) value(r *run) (int, error) {
	if c.parameter == nil {
		return c.number, nil
	}
	n, ok := r.parameters[c.parameter.slot].integer()
	if !ok || n < 0 || n > 1<<31-1 {
		return 0, &Error{Code: codeLimit, Message: "The value of '" + c.parameter.name + "' in TOP, OFFSET or LIMIT is not an integer of at most 2147483647."}
	}
	return int(n), nil
}

// unlimited yields the results as if there were no TOP and OFFSET LIMIT.
func (s *statement) unlimited(r *row, documents iter.Seq[value]) iter.Seq[value] {
	results := s.projected(r, documents)
	switch {
	case s.grouped():
		results = s.groups(r, documents)
	case s.orderBy != nil:
		results = s.sorted(r, documents)
	}
	if s.distinct {
		return distinct(r.run, results, documents != nil)
	}
	return results
}

// rows calls visit for every combination of source values that meets WHERE. The
// row is the same each time, with other values in its slots. rows stops if visit
// returns false.
func (s *statement) rows(outer *row, documents iter.Seq[value], visit func(*row) bool) {
	r := &row{run: outer.run, slots: outer.slots}
	s.join(r, 0, documents, func() bool {
		made := r.run.made
		met := s.where == nil || s.where.eval(r).isTrue()
		r.run.made = made
		if !r.run.spend(rowWork) || !met {
			return r.run.err == nil
		}
		wantsMore := visit(r) && r.run.err == nil
		r.run.made = made
		return wantsMore
	})
}

// join binds the sources from the ith on, and calls visit when all are bound. It
// returns false if visit did.
func (s *statement) join(r *row, i int, documents iter.Seq[value], visit func() bool) bool {
	if i == len(s.from) {
		return visit()
	}
	src := &s.from[i]
	for v := range src.values(r, documents) {
		r.slots[src.slot] = v
		if !r.run.spend(rowWork) || documents == nil && !r.run.combine() {
			return false
		}
		if !s.join(r, i+1, nil, visit) {
			return false
		}
	}
	return true
}

// values yields the values that the source binds to its alias.
func (src *source) values(r *row, documents iter.Seq[value]) iter.Seq[value] {
	return func(yield func(value) bool) {
		for v := range src.roots(r, documents) {
			made := r.run.made
			path := src.path
			if src.computed != nil {
				v, path = src.computed.evaluate(r.run, v), path[1:]
			}
			for _, step := range path {
				if key := step.(*literal).value; key.kind == kindString {
					v = r.run.property(v, key.text)
				} else {
					v = r.run.element(v, int64(key.number))
				}
			}
			wantsMore := src.bind(r.run, v, yield)
			r.run.made = made
			if !wantsMore {
				return
			}
		}
	}
}

func (src *source) roots(r *row, documents iter.Seq[value]) iter.Seq[value] {
	switch {
	case src.query != nil:
		return src.query.values(r, documents)
	case src.root.slot == container:
		return documents
	}
	return func(yield func(value) bool) { yield(r.slots[src.root.slot]) }
}

// bind yields v, or its elements if the source iterates.
func (src *source) bind(r *run, v value, yield func(value) bool) bool {
	if !src.iterate {
		return !v.defined() || yield(v)
	}
	if v.kind != kindArray {
		return true
	}
	for raw := range elements(v.raw) {
		made := r.made
		if !r.spend(len(raw)) || !yield(r.read(raw)) {
			return false
		}
		r.made = made
	}
	return true
}

// project evaluates the select list. If the result is undefined, the row has none.
func (s *statement) project(r *row) value {
	switch {
	case s.star:
		return r.slots[s.from[0].slot]
	case s.value != nil:
		return s.value.eval(r)
	}
	o := objectBuilder{run: r.run}
	for _, it := range s.items {
		if !o.add(it.name, it.expr.eval(r)) {
			break
		}
	}
	return o.value()
}

func (s *statement) projected(r *row, documents iter.Seq[value]) iter.Seq[value] {
	return func(yield func(value) bool) {
		s.rows(r, documents, func(r *row) bool {
			v := s.project(r)
			return !v.defined() || r.run.err != nil || yield(v)
		})
	}
}

// place is one row of an ordered result.
type place struct {
	keys     []value
	document int // number of the document that it comes from
	row      int // among the rows of that document; -1 if before all of them
	result   value
}

// ordered returns the rows in the order of ORDER BY. If rows are equal in it, they
// are in the order of the input, or in reverse if the first expression is DESC. Rows
// with an undefined value are left out, as of a range index, or come first if
// s.undefined is set.
func (s *statement) ordered(outer *row, documents iter.Seq[value]) []place {
	var all []place
	s.rows(outer, documents, func(r *row) bool {
		p := place{document: r.run.document}
		if last := len(all) - 1; last >= 0 && all[last].document == p.document {
			p.row = all[last].row + 1
		}
		for _, o := range s.orderBy {
			p.keys = append(p.keys, o.expr.eval(r))
		}
		if p.result = s.project(r); p.result.defined() && (s.undefined || p.keys[0].defined()) {
			all = append(all, p)
			return r.run.hold(entryBytes+valueBytes*len(p.keys), documents != nil)
		}
		return true
	})
	// slices.SortFunc would be compiled for this type: 25 kB of an app with dev.
	sort.Slice(all, func(i, j int) bool { return s.compare(outer.run, all[i], all[j]) < 0 })
	return all
}

func (s *statement) sorted(outer *row, documents iter.Seq[value]) iter.Seq[value] {
	return func(yield func(value) bool) {
		for _, p := range s.ordered(outer, documents) {
			if outer.run.err != nil || !yield(p.result) {
				return
			}
		}
	}
}

func (s *statement) compare(r *run, a, b place) int {
	if c := s.compareKeys(r, a.keys, b.keys); c != 0 {
		return c
	}
	c := cmp.Or(cmp.Compare(a.document, b.document), cmp.Compare(a.row, b.row))
	if s.orderBy[0].descending {
		return -c
	}
	return c
}

func (s *statement) compareKeys(r *run, a, b []value) int {
	for i, o := range s.orderBy {
		if c := r.compare(a[i], b[i]); c != 0 {
			if o.descending {
				return -c
			}
			return c
		}
	}
	return 0
}

// group is the rows with the same GROUP BY values.
type group struct {
	slots        []value // of its first row
	accumulators []accumulator
}

// groups yields one result per group in the order of their first rows. If there is
// no GROUP BY, all rows are one group, even if there are none.
func (s *statement) groups(outer *row, documents iter.Seq[value]) iter.Seq[value] {
	return func(yield func(value) bool) {
		byKey := make(map[string]*group)
		var order []*group
		find := func(key string, slots []value) *group {
			if byKey[key] == nil {
				byKey[key] = s.newGroup(slots)
				order = append(order, byKey[key])
				outer.run.hold(2*entryBytes+len(key)+valueBytes*len(slots)+entryBytes*len(s.aggregates), documents != nil)
			}
			return byKey[key]
		}
		if s.groupBy == nil {
			find("", outer.slots)
		}
		s.rows(outer, documents, func(r *row) bool {
			return find(s.groupKey(r), r.slots).add(s, r, documents != nil)
		})
		for _, g := range order {
			made := outer.run.made
			v := g.project(s, outer.run)
			if outer.run.err != nil || v.defined() && !yield(v) {
				return
			}
			outer.run.made = made
		}
	}
}

func (s *statement) groupKey(r *row) string {
	var key []byte
	for _, e := range s.groupBy {
		key = append(r.run.canonical(key, e.eval(r)), ',')
	}
	return string(key)
}

func (s *statement) newGroup(slots []value) *group {
	g := &group{slots: slices.Clone(slots), accumulators: make([]accumulator, len(s.aggregates))}
	for i, c := range s.aggregates {
		g.accumulators[i].function = c.name
		g.accumulators[i].distinct = c.distinct || c.name == "MAKESET"
	}
	return g
}

// add returns false if the run must stop.
func (g *group) add(s *statement, r *row, outermost bool) bool {
	for i, c := range s.aggregates {
		if bytes, kept := g.accumulators[i].add(r.run, c.arguments[0].eval(r)); kept && !r.run.hold(bytes, outermost) {
			return false
		}
	}
	return r.run.err == nil
}

func (g *group) project(s *statement, run *run) value {
	r := &row{run: run, slots: g.slots}
	for i := range g.accumulators {
		r.aggregates = append(r.aggregates, g.accumulators[i].result())
	}
	return s.project(r)
}

// distinct drops results that equal an earlier one.
func distinct(r *run, results iter.Seq[value], outermost bool) iter.Seq[value] {
	return func(yield func(value) bool) {
		seen := make(map[string]bool)
		for v := range results {
			if key := string(r.canonical(nil, v)); !seen[key] {
				seen[key] = true
				if !r.hold(entryBytes+len(key), outermost) || !yield(v) {
					return
				}
			}
		}
	}
}
