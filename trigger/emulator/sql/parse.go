package sql

import (
	"math"
	"strings"
	"unicode/utf8"
)

// Bounds of a query. The service takes queries of 512 KB,
// https://learn.microsoft.com/azure/cosmos-db/concepts-limits.
const (
	maxText  = 512 << 10
	maxNodes = 50_000 // expressions; chains of operators are as deep as long
	maxDepth = 200    // of parentheses, calls and subqueries
	maxJoins = 10     // of the query and its subqueries together, as on the service
)

// parser is a recursive descent over the tokens of one query. If a method finds an
// error, it panics with it; recoverError returns it to the caller of the package.
type parser struct {
	lexer      lexer
	token      token // the next one
	ahead      token // the one after it
	end        int   // of the last token taken
	depth      int
	nodes      int
	joins      int
	parameters []string
	slots      map[string]int // of parameters
}

func newParser(text string) *parser {
	p := &parser{lexer: lexer{text: text}, slots: make(map[string]int)}
	if len(text) > maxText {
		panic(&Error{Code: codeSyntax, Message: "The query is longer than 512 KB."})
	}
	if !utf8.ValidString(text) {
		panic(&Error{Code: codeSyntax, Message: "The query is not valid UTF-8."})
	}
	p.ahead = p.lex()
	p.advance()
	return p
}

func recoverError(err *error) {
	switch e := recover().(type) {
	case nil:
	case *Error:
		*err = e
	default:
		panic(e)
	}
}

func (p *parser) lex() token {
	t, err := p.lexer.next()
	if err != nil {
		panic(err)
	}
	return t
}

// advance takes the next token.
func (p *parser) advance() token {
	taken := p.token
	p.end = taken.end
	p.token = p.ahead
	if p.token.kind != tokenEnd {
		p.ahead = p.lex()
	}
	return taken
}

// fail returns the error for the next token, when no rule accepts it.
func (p *parser) fail() *Error {
	t := p.token
	switch {
	case t.kind == tokenEnd:
		return t.errorf(codeSyntax, "Syntax error, the query ends too early.")
	case t.kind == tokenKeyword && p.end > 0 && p.lexer.text[p.end-1] == '.':
		written := p.lexer.text[t.start:t.end]
		return t.errorf(codeSyntax, "Syntax error, incorrect syntax near '%s'. It is a keyword; write [\"%s\"].", written, written)
	}
	return t.errorf(codeSyntax, "Syntax error, incorrect syntax near '%s'.", p.lexer.text[t.start:t.end])
}

func (p *parser) isSymbol(s string) bool { return p.token.kind == tokenSymbol && p.token.text == s }

func (p *parser) isKeyword(word string) bool {
	return p.token.kind == tokenKeyword && p.token.text == word
}

// symbol takes the next token if it is s.
func (p *parser) symbol(s string) bool {
	if !p.isSymbol(s) {
		return false
	}
	p.advance()
	return true
}

// keyword takes the next token if it is word.
func (p *parser) keyword(word string) bool {
	if !p.isKeyword(word) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) needSymbol(s string) {
	if !p.symbol(s) {
		panic(p.fail())
	}
}

func (p *parser) needKeyword(word string) {
	if !p.keyword(word) {
		panic(p.fail())
	}
}

func (p *parser) needName() token {
	if p.token.kind != tokenName {
		panic(p.fail())
	}
	return p.advance()
}

func (p *parser) needEnd() {
	if p.token.kind != tokenEnd {
		panic(p.fail())
	}
}

// enter counts one level of nesting until leave. It panics if there are too many.
func (p *parser) enter() {
	if p.depth++; p.depth > maxDepth {
		panic(p.token.errorf(codeSyntax, "The query is nested more than %d levels deep.", maxDepth))
	}
}

func (p *parser) leave() { p.depth-- }

// statement parses SELECT … to the end of its clauses.
func (p *parser) statement() *statement {
	p.enter()
	defer p.leave()
	s := &statement{span: p.token.span}
	p.needKeyword("SELECT")
	s.distinct = p.keyword("DISTINCT")
	if p.keyword("TOP") {
		s.top = p.count()
	}
	p.selection(s)
	if p.keyword("FROM") {
		s.from = p.from()
	}
	p.clauses(s)
	s.span.end = p.end
	return s
}

// clauses parses the clauses after FROM.
func (p *parser) clauses(s *statement) {
	if p.keyword("WHERE") {
		s.where = p.expression()
	}
	if p.keyword("GROUP") {
		p.needKeyword("BY")
		s.groupBy = p.expressions()
	}
	if p.keyword("ORDER") {
		p.needKeyword("BY")
		s.orderBy = p.orderings()
	}
	if p.keyword("OFFSET") {
		s.offset = p.count()
		p.needKeyword("LIMIT")
		s.limit = p.count()
	}
}

func (p *parser) selection(s *statement) {
	switch {
	case p.symbol("*"):
		s.star = true
	case p.keyword("VALUE"):
		s.value = p.item().expr // its alias has no effect
	default:
		s.items = append(s.items, p.item())
		for p.symbol(",") {
			s.items = append(s.items, p.item())
		}
	}
}

// item parses an expression and its alias if there is one. The alias may lack AS or
// be a string.
func (p *parser) item() item {
	i := item{span: p.token.span}
	i.expr = p.expression()
	i.named = span{i.span.start, p.end}
	hasAS := p.keyword("AS")
	if p.token.kind == tokenName || p.token.kind == tokenString {
		i.named = p.token.span
	}
	switch {
	case p.token.kind == tokenName:
		i.alias = p.advance().text
	case p.token.kind == tokenString && p.token.value.text != "":
		i.alias = p.advance().value.text
	case hasAS:
		panic(p.fail())
	}
	i.span.end = p.end
	return i
}

// count parses the number of a TOP, OFFSET or LIMIT.
func (p *parser) count() *count {
	t := p.token
	switch t.kind {
	case tokenParameter:
		return &count{parameter: p.parameter()}
	case tokenNumber:
		n, ok := t.value.integer()
		if !ok || n > math.MaxInt32 {
			panic(t.errorf(codeLimit, "The value '%s' of TOP, OFFSET or LIMIT is not an integer of at most %d.", t.text, math.MaxInt32))
		}
		p.advance()
		return &count{number: int(n)}
	}
	panic(p.fail())
}

func (p *parser) orderings() []ordering {
	var orderings []ordering
	if t := p.token; strings.EqualFold(t.text, "RANK") && p.ahead.kind == tokenName {
		panic(t.errorf(codeFunction, "ORDER BY RANK is not supported by the Halley emulator: it has no hybrid search."))
	}
	for {
		o := ordering{expr: p.expression()}
		o.descending = p.keyword("DESC")
		o.directed = o.descending || p.keyword("ASC")
		orderings = append(orderings, o)
		if !p.symbol(",") {
			return orderings
		}
	}
}

func (p *parser) from() []source {
	sources := []source{p.source()}
	for p.keyword("JOIN") {
		if p.joins++; p.joins > maxJoins {
			panic(p.token.errorf(codeLimit, "The query has more than %d JOINs.", maxJoins))
		}
		sources = append(sources, p.source())
	}
	return sources
}

// source parses "alias IN collection" or "collection [AS] alias".
func (p *parser) source() source {
	s := source{span: p.token.span}
	if p.token.kind == tokenName && p.ahead.kind == tokenKeyword && p.ahead.text == "IN" {
		s.alias, s.named, s.iterate = p.advance().text, true, true
		p.advance()
		p.collection(&s)
	} else {
		s.alias = p.collection(&s)
		if t := p.token; strings.EqualFold(t.text, "LET") && p.ahead.kind == tokenName {
			panic(t.errorf(codeFunction, "LET is not supported by the Halley emulator."))
		}
		if hasAS := p.keyword("AS"); hasAS || p.token.kind == tokenName {
			s.alias, s.named = p.needName().text, true
		}
	}
	s.span.end = p.end
	return s
}

// collection parses a path such as c.a["b"][0], or a subquery. It returns the
// alias that the source has if the query gives none: the last name of the path.
func (p *parser) collection(s *source) string {
	if p.symbol("(") {
		s.query = p.statement()
		p.needSymbol(")")
		return ""
	}
	root := p.needName()
	s.root = &name{text: root.text, span: root.span}
	alias := root.text
	for {
		var step value
		switch {
		case p.symbol("."):
			step = text(p.needName().text)
		case p.symbol("["):
			if p.token.kind != tokenString && p.token.kind != tokenNumber {
				panic(p.fail())
			}
			step = p.advance().value
			p.needSymbol("]")
		default:
			return alias
		}
		alias = step.text
		s.path = append(s.path, &literal{step})
	}
}
