package sql

import (
	"strconv"
	"strings"
)

// Levels of expressions, loosest first. An operand is printed in parentheses if it
// binds less tightly than its place requires.
const (
	levelConditional = iota
	levelCoalesce
	levelOr
	levelAnd
	levelMatch // IN, LIKE, BETWEEN
	levelComparison
	levelConcat
	levelAdditive
	levelMultiplicative
	levelUnary
	levelPrimary
)

// printer writes a query in its canonical form: keywords in upper case, single
// spaces, parentheses only if they are needed.
type printer struct{ strings.Builder }

func (p *printer) write(parts ...string) {
	for _, s := range parts {
		p.WriteString(s)
	}
}

// expr prints e as an operand that must bind at least as tightly as level.
func (p *printer) expr(e expr, level int) {
	if e.level() >= level {
		e.print(p)
		return
	}
	p.write("(")
	e.print(p)
	p.write(")")
}

func (p *printer) list(list []expr) {
	for i, e := range list {
		if i > 0 {
			p.write(", ")
		}
		p.expr(e, levelConditional)
	}
}

// printed is the canonical form of e.
func printed(e expr) string {
	var p printer
	e.print(&p)
	return p.String()
}

// quoted is a string literal.
func quoted(s string) string { return string(appendQuoted(nil, s)) }

// plain reports whether s can stand as a name.
func plain(s string) bool {
	if s == "" || !isLetter(s[0]) || keywords[strings.ToUpper(s)] {
		return false
	}
	for i := range len(s) {
		if !isLetter(s[i]) && !isDigit(s[i]) {
			return false
		}
	}
	return true
}

func not(b bool) string {
	if b {
		return " NOT"
	}
	return ""
}

// level of a number keeps its dot apart from that of a property.
func (e *literal) level() int {
	if e.value.kind == kindNumber {
		return levelUnary
	}
	return levelPrimary
}

func (e *parameter) level() int     { return levelPrimary }
func (e *name) level() int          { return levelPrimary }
func (e *property) level() int      { return levelPrimary }
func (e *index) level() int         { return levelPrimary }
func (e *unary) level() int         { return levelUnary }
func (e *binary) level() int        { return e.op.level }
func (e *coalesce) level() int      { return levelCoalesce }
func (e *conditional) level() int   { return levelConditional }
func (e *between) level() int       { return levelMatch }
func (e *in) level() int            { return levelMatch }
func (e *like) level() int          { return levelMatch }
func (e *arrayLiteral) level() int  { return levelPrimary }
func (e *objectLiteral) level() int { return levelPrimary }
func (e *call) level() int          { return levelPrimary }
func (e *subquery) level() int      { return levelPrimary }

func (e *literal) print(p *printer) {
	if !e.value.defined() {
		p.write("undefined")
		return
	}
	p.Write(e.value.append(nil))
}

func (e *parameter) print(p *printer) { p.write(e.name) }

func (e *name) print(p *printer) { p.write(e.text) }

func (e *property) print(p *printer) {
	p.expr(e.of, levelPrimary)
	p.step(e.name)
}

// step prints the access of a property.
func (p *printer) step(name string) {
	if plain(name) {
		p.write(".", name)
	} else {
		p.write("[", quoted(name), "]")
	}
}

func (e *index) print(p *printer) {
	p.expr(e.of, levelPrimary)
	p.write("[")
	p.expr(e.by, levelConditional)
	p.write("]")
}

// print separates two signs, which would begin a comment if they were adjacent, and
// a sign from a number, which it would become a part of.
func (e *unary) print(p *printer) {
	p.write(e.op)
	switch x := e.x.(type) {
	case *literal:
		if x.value.kind == kindNumber && x.value.append(nil)[0] != '-' {
			p.write(" (")
			x.print(p)
			p.write(")")
			return
		}
		p.write(" ")
	case *unary:
		p.write(" ")
	default:
		if e.op == "NOT" {
			p.write(" ")
		}
	}
	p.expr(e.x, levelUnary)
}

func (e *binary) print(p *printer) {
	p.expr(e.x, e.op.level)
	p.write(" ", e.op.text, " ")
	p.expr(e.y, e.op.level+1)
}

func (e *coalesce) print(p *printer) {
	p.expr(e.x, levelCoalesce+1)
	p.write(" ?? ")
	p.expr(e.y, levelCoalesce)
}

func (e *conditional) print(p *printer) {
	p.expr(e.x, levelConditional+1)
	p.write(" ? ")
	p.expr(e.y, levelConditional)
	p.write(" : ")
	p.expr(e.z, levelConditional)
}

func (e *between) print(p *printer) {
	p.expr(e.x, levelComparison)
	p.write(not(e.not), " BETWEEN ")
	p.expr(e.low, levelComparison)
	p.write(" AND ")
	p.expr(e.high, levelComparison)
}

func (e *in) print(p *printer) {
	p.expr(e.x, levelComparison)
	p.write(not(e.not), " IN (")
	p.list(e.list)
	p.write(")")
}

func (e *like) print(p *printer) {
	p.expr(e.x, levelComparison)
	p.write(not(e.not), " LIKE ")
	p.expr(e.pattern, levelComparison)
	if e.escape != "" {
		p.write(" ESCAPE ", quoted(e.escape))
	}
}

func (e *arrayLiteral) print(p *printer) {
	p.write("[")
	p.list(e.items)
	p.write("]")
}

func (e *objectLiteral) print(p *printer) {
	p.write("{")
	for i, name := range e.names {
		if i > 0 {
			p.write(", ")
		}
		p.write(quoted(name), ": ")
		p.expr(e.values[i], levelConditional)
	}
	p.write("}")
}

func (e *call) print(p *printer) {
	p.write(e.name, "(")
	if e.distinct {
		p.write("DISTINCT ")
	}
	p.list(e.arguments)
	p.write(")")
}

func (e *subquery) print(p *printer) {
	p.write(e.form, "(")
	e.query.print(p)
	p.write(")")
}

func (s *statement) print(p *printer) {
	p.write("SELECT ")
	if s.distinct {
		p.write("DISTINCT ")
	}
	if s.top != nil {
		p.write("TOP ", s.top.String(), " ")
	}
	s.printSelection(p)
	for i := range s.from {
		p.write([]string{" FROM ", " JOIN "}[min(i, 1)])
		s.from[i].print(p)
	}
	s.printClauses(p)
}

func (s *statement) printSelection(p *printer) {
	switch {
	case s.star:
		p.write("*")
	case s.value != nil:
		p.write("VALUE ")
		p.expr(s.value, levelConditional)
	}
	for i, item := range s.items {
		if i > 0 {
			p.write(", ")
		}
		p.expr(item.expr, levelConditional)
		switch {
		case plain(item.alias):
			p.write(" AS ", item.alias)
		case item.alias != "":
			p.write(" AS ", quoted(item.alias))
		}
	}
}

func (s *statement) printClauses(p *printer) {
	if s.where != nil {
		p.write(" WHERE ")
		p.expr(s.where, levelConditional)
	}
	if s.groupBy != nil {
		p.write(" GROUP BY ")
		p.list(s.groupBy)
	}
	for i, o := range s.orderBy {
		p.write([]string{" ORDER BY ", ", "}[min(i, 1)])
		p.expr(o.expr, levelConditional)
		switch {
		case o.descending:
			p.write(" DESC")
		case o.directed:
			p.write(" ASC")
		}
	}
	if s.limit != nil {
		p.write(" OFFSET ", s.offset.String(), " LIMIT ", s.limit.String())
	}
}

func (src *source) print(p *printer) {
	if src.iterate {
		p.write(src.alias, " IN ")
	}
	if src.query != nil {
		p.write("(")
		src.query.print(p)
		p.write(")")
	} else {
		p.write(src.root.text)
	}
	for _, step := range src.path {
		if v := step.(*literal).value; v.kind == kindString {
			p.step(v.text)
		} else {
			p.write("[", printed(step), "]")
		}
	}
	if src.named && !src.iterate {
		p.write(" AS ", src.alias)
	}
}

func (c *count) String() string {
	if c.parameter != nil {
		return c.parameter.name
	}
	return strconv.Itoa(c.number)
}
