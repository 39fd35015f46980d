package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Goal compares a figure with its target.
type Goal struct {
	Text    string               // the target in words, such as "≤ 1/8 of azcosmos"
	Got     float64              // NaN if it was not measured
	Limit   float64              // of the target
	AtLeast bool                 // Got must be at least Limit; otherwise at most
	Guard   float64              // limit of the short form, with room for noise; 0 is none
	Show    func(float64) string // writes Got; by default Number

	Obstacle string // the measured reason for a miss, if it is known
}

// Met reports whether the target is met.
func (g Goal) Met() bool { return g.within(g.Limit) }

// Broken reports whether the figure is beyond the limit of the short form.
func (g Goal) Broken() bool { return g.Guard != 0 && !g.within(g.Guard) }

func (g Goal) within(limit float64) bool {
	if g.AtLeast {
		return g.Got >= limit
	}
	return g.Got <= limit
}

// String returns the result: the figure, and if the target is missed, how far and why.
func (g Goal) String() string {
	text := g.result()
	if g.Obstacle != "" && !g.Met() && !math.IsNaN(g.Got) {
		text += "; " + g.Obstacle
	}
	return text
}

func (g Goal) result() string {
	show := g.Show
	if show == nil {
		show = Number
	}
	switch {
	case math.IsNaN(g.Got):
		return "not measured"
	case g.Met():
		return "**met**: " + show(g.Got)
	case g.Limit == 0 || g.Got == 0:
		return "missed: " + show(g.Got)
	case g.AtLeast:
		return fmt.Sprintf("missed: %s, %s of the target", show(g.Got), Number(g.Got/g.Limit))
	}
	return fmt.Sprintf("missed: %s, %s × the limit", show(g.Got), Number(g.Got/g.Limit))
}

// Row is one row of a table.
type Row struct {
	Name  string
	Cells map[string]string // by column
	Goals []Goal
}

// Section is a part of a report: a table with text before it and charts after it.
type Section struct {
	Title string
	Text  string
	Rows  []Row
	Chart []Chart
}

// Columns returns the given columns that some row has a cell in.
func (s Section) Columns(known []string) []string {
	var used []string
	for _, column := range known {
		for _, row := range s.Rows {
			if row.Cells[column] != "" {
				used = append(used, column)
				break
			}
		}
	}
	return used
}

// WriteTable writes the rows as a table in Markdown. Cells that a row lacks are empty. If
// no row has a goal, there are no columns of targets and results.
func (s Section) WriteTable(w io.Writer, known []string) error {
	columns := s.Columns(known)
	heads := append([]string{"measured"}, columns...)
	hasGoals := slices.ContainsFunc(s.Rows, func(r Row) bool { return len(r.Goals) > 0 })
	if hasGoals {
		heads = append(heads, "target", "result")
	}
	var b strings.Builder
	line := func(cells ...string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(heads...)
	line(slices.Repeat([]string{"---"}, len(heads))...)
	for _, row := range s.Rows {
		cells := []string{row.Name}
		for _, column := range columns {
			cells = append(cells, row.Cells[column])
		}
		if !hasGoals {
			line(cells...)
			continue
		}
		var targets, results []string
		for _, goal := range row.Goals {
			targets, results = append(targets, goal.Text), append(results, goal.String())
		}
		line(append(cells, strings.Join(targets, "<br>"), strings.Join(results, "<br>"))...)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
