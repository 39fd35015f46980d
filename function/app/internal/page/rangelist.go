package page

import (
	"net/http"
	"slices"
	"strconv"
)

// rangeQuery selects ranges. Empty fields select all.
type rangeQuery struct {
	Function, Range string
	State           string // as [Range.State] returns it
	From            int    // index of the first one
	Limit           int
}

// rangeQueryOf is the query of a request, whose offset has this name.
func rangeQueryOf(r *http.Request, offset string) rangeQuery {
	from, _ := strconv.Atoi(query(r, offset)) // 0 is the beginning
	return rangeQuery{Function: query(r, "function"), Range: query(r, "range"), State: query(r, "rangeState"), From: max(from, 0), Limit: limitOf(r)}
}

// rangesFor returns the ranges that a query selects, those with a problem first.
func (p *Page) rangesFor(s State, q rangeQuery) items[Range] {
	var stalled, others []*Range
	for i := range s.Ranges {
		r := &s.Ranges[i]
		state := r.State()
		switch {
		case q.Function != "" && q.Function != r.Function, q.Range != "" && q.Range != r.Range, q.State != "" && q.State != state:
		case state == rangeStalled:
			stalled = append(stalled, r)
		default:
			others = append(others, r)
		}
	}
	all := slices.Concat(stalled, others)
	l := items[Range]{Items: []Range{}, Total: len(all)}
	if q.From >= len(all) && len(all) > 0 { // ranges have left since
		q.From = (len(all) - 1) / q.Limit * q.Limit
	}
	end := min(q.From+q.Limit, len(all))
	for _, r := range all[min(q.From, end):end] {
		row := *r
		row.Rate = p.options.Recorder.rateOf(r.Function, r.Range)
		l.Items = append(l.Items, row)
	}
	if end < len(all) {
		l.Next = strconv.Itoa(end)
	}
	return l
}

// key identifies a range for the script.
func (r *Range) key() string { return r.Function + "\n" + r.Range }
