package sql

import (
	"strings"
	"unicode/utf8"
)

// The grammar of expressions, loosest first, after the service's own as
// microsoft/vscode-cosmosdb (SqlParser.ts) repeats it:
//
//	x ? y : z      ??      OR      AND      IN, LIKE, BETWEEN
//	= != <> < <= > >= << >> >>>      ||      + - & | ^      * / %
//	unary + - ~ NOT      . []

// expression parses any scalar expression.
func (p *parser) expression() expr {
	p.enter()
	defer p.leave()
	x := p.coalesce()
	if !p.symbol("?") {
		return x
	}
	y := p.expression()
	p.needSymbol(":")
	return p.node(&conditional{x, y, p.expression()})
}

// node counts e. It panics if the query has too many expressions.
func (p *parser) node(e expr) expr {
	if p.nodes++; p.nodes > maxNodes {
		panic(p.token.errorf(codeSyntax, "The query has more than %d expressions.", maxNodes))
	}
	return e
}

func (p *parser) expressions() []expr {
	list := []expr{p.expression()}
	for p.symbol(",") {
		list = append(list, p.expression())
	}
	return list
}

func (p *parser) coalesce() expr {
	x := p.infix(levelOr)
	if !p.symbol("??") {
		return x
	}
	p.enter()
	defer p.leave()
	return p.node(&coalesce{x, p.coalesce()})
}

// infix parses operators of the given level and tighter ones, left to right.
func (p *parser) infix(level int) expr {
	switch level {
	case levelMatch:
		return p.match()
	case levelUnary:
		return p.unary()
	}
	x := p.infix(level + 1)
	for {
		op := p.operator(level)
		if op == nil {
			return x
		}
		p.advance()
		x = p.node(&binary{op, x, p.infix(level + 1)})
	}
}

// operator returns the next token's infix operator, nil if it is not one of level.
func (p *parser) operator(level int) *operator {
	if p.token.kind != tokenSymbol && p.token.kind != tokenKeyword {
		return nil
	}
	if op := operators[p.token.text]; op != nil && op.level == level {
		return op
	}
	return nil
}

// match parses IN, LIKE and BETWEEN after a comparison.
func (p *parser) match() expr {
	x := p.infix(levelComparison)
	not := p.isKeyword("NOT") && p.ahead.kind == tokenKeyword
	if not {
		p.advance()
	}
	switch {
	case p.keyword("IN"):
		p.needSymbol("(")
		list := p.expressions()
		p.needSymbol(")")
		return p.node(&in{not, x, list})
	case p.keyword("LIKE"):
		return p.like(not, x)
	case p.keyword("BETWEEN"):
		low := p.infix(levelComparison)
		p.needKeyword("AND")
		return p.node(&between{not, x, low, p.infix(levelComparison)})
	case not:
		panic(p.fail())
	}
	return x
}

func (p *parser) like(not bool, x expr) expr {
	l := &like{not: not, x: x, pattern: p.infix(levelComparison)}
	if p.keyword("ESCAPE") {
		t := p.token
		if t.kind != tokenString || utf8.RuneCountInString(t.value.text) != 1 {
			panic(t.errorf(codeSyntax, "Syntax error, ESCAPE takes a string of one character."))
		}
		l.escape = p.advance().value.text
	}
	return p.node(l)
}

func (p *parser) unary() expr {
	for _, op := range []string{"-", "+", "~"} {
		if p.symbol(op) {
			return p.applied(op)
		}
	}
	if p.keyword("NOT") {
		return p.applied("NOT")
	}
	return p.postfix()
}

// applied parses the operand of a unary operator. If digits follow a minus, they are
// one literal.
func (p *parser) applied(op string) expr {
	p.enter()
	defer p.leave()
	digits := op == "-" && p.token.kind == tokenNumber
	x := p.unary()
	if l, ok := x.(*literal); ok && digits {
		return p.node(&literal{l.value.negated()})
	}
	return p.node(&unary{op, x})
}

func (p *parser) postfix() expr {
	x := p.primary()
	for {
		switch {
		case p.symbol("."):
			x = p.node(&property{of: x, name: p.needName().text})
		case p.symbol("["):
			x = p.node(indexed(x, p.expression()))
			p.needSymbol("]")
		default:
			return x
		}
	}
}

// indexed returns parent[key], as a property if key is a constant string.
func indexed(parent, key expr) expr {
	if l, ok := key.(*literal); ok && l.value.kind == kindString {
		return &property{of: parent, name: l.value.text}
	}
	return &index{parent, key}
}

func (p *parser) primary() expr {
	switch t := p.token; t.kind {
	case tokenNumber, tokenString:
		p.advance()
		return p.node(&literal{t.value})
	case tokenParameter:
		return p.node(p.parameter())
	case tokenName:
		p.advance()
		if p.isSymbol("(") {
			return p.call(t)
		}
		return p.node(&name{text: t.text, span: t.span})
	case tokenKeyword:
		return p.keywordPrimary()
	}
	switch {
	case p.symbol("("):
		return p.parenthesized()
	case p.symbol("["):
		return p.arrayLiteral()
	case p.symbol("{"):
		return p.objectLiteral()
	}
	panic(p.fail())
}

func (p *parser) parameter() *parameter {
	t := p.advance()
	slot, ok := p.slots[t.text]
	if !ok {
		slot = len(p.parameters)
		p.slots[t.text] = slot
		p.parameters = append(p.parameters, t.text)
	}
	return &parameter{name: t.text, slot: slot}
}

func (p *parser) keywordPrimary() expr {
	switch {
	case p.keyword("TRUE"):
		return p.node(&literal{boolean(true)})
	case p.keyword("FALSE"):
		return p.node(&literal{boolean(false)})
	case p.keyword("NULL"):
		return p.node(&literal{null})
	case p.keyword("UNDEFINED"):
		return p.node(&literal{undefined})
	case p.isKeyword("EXISTS") || p.isKeyword("ARRAY"):
		form := p.advance().text
		p.needSymbol("(")
		return p.subquery(form)
	case p.isKeyword("UDF"):
		panic(p.token.errorf(codeFunction, "User-defined functions are not supported by the Halley emulator."))
	}
	panic(p.fail())
}

func (p *parser) parenthesized() expr {
	if p.isKeyword("SELECT") {
		return p.subquery("")
	}
	x := p.expression()
	p.needSymbol(")")
	return x
}

func (p *parser) subquery(form string) expr {
	q := p.statement()
	p.needSymbol(")")
	return p.node(&subquery{form, q})
}

func (p *parser) arrayLiteral() expr {
	a := &arrayLiteral{}
	if !p.isSymbol("]") {
		a.items = p.expressions()
	}
	p.needSymbol("]")
	return p.node(a)
}

func (p *parser) objectLiteral() expr {
	o, taken := &objectLiteral{}, make(map[string]bool)
	for hasNext := !p.isSymbol("}"); hasNext; hasNext = p.symbol(",") {
		t := p.token
		if t.kind != tokenName && t.kind != tokenString {
			panic(p.fail())
		}
		p.advance()
		key := t.text
		if t.kind == tokenString {
			key = t.value.text
		}
		if taken[key] {
			panic(t.errorf(codeSyntax, "Syntax error, property '%s' is defined twice.", key))
		}
		taken[key] = true
		p.needSymbol(":")
		o.names, o.values = append(o.names, key), append(o.values, p.expression())
	}
	p.needSymbol("}")
	return p.node(o)
}

// call parses the arguments of the function that t names.
func (p *parser) call(t token) expr {
	c := &call{name: strings.ToUpper(t.text), span: t.span}
	if feature := unsupported[c.name]; feature != "" {
		panic(t.errorf(codeFunction, "The function %s is not supported by the Halley emulator: it has no %s.", t.text, feature))
	}
	p.needSymbol("(")
	c.distinct = c.name == "COUNT" && p.keyword("DISTINCT")
	if !p.isSymbol(")") {
		c.arguments = p.expressions()
	}
	p.needSymbol(")")
	c.aggregate = aggregates[c.name]
	c.function = functions[c.name]
	minArgs, maxArgs := 1, 1
	switch {
	case c.function != nil:
		minArgs, maxArgs = c.function.least, c.function.most
	case !c.aggregate:
		panic(t.errorf(codeFunction, "'%s' is not a recognized built-in function name.", t.text))
	}
	if n := len(c.arguments); n < minArgs || maxArgs >= 0 && n > maxArgs {
		panic(t.errorf(codeArguments, "The %s function requires %s, not %d.", c.name, arity(minArgs, maxArgs), n))
	}
	return p.node(c)
}
