package filter

import (
	"strings"
	"unicode/utf8"
)

// textOperators are the operators with a text.
var textOperators = map[string]ruleKind{"prefix": hasPrefix, "suffix": hasSuffix, "equals-ignore-case": foldsTo}

// parseRules parses the list of rules of a field.
func parseRules(f *parsedField, n jsonNode) error {
	if len(n.elements) == 0 {
		return n.faultf(`the list has no rule: write [null] for null, [""] for an empty text`)
	}
	for _, e := range n.elements {
		if err := parseRule(f, e); err != nil {
			return err
		}
	}
	return nil
}

func parseRule(f *parsedField, n jsonNode) error {
	if len(n.members) == 1 && n.members[0].fieldName == "exists" {
		return parseExists(f, n.members[0].jsonNode)
	}
	r, err := parseValueRule(n)
	f.valueRules = append(f.valueRules, r)
	return err
}

func parseExists(f *parsedField, operand jsonNode) error {
	switch operand.rawText {
	case "true":
		f.ifPresent = true
	case "false":
		f.ifMissing = true
	default:
		return operand.faultf("it needs true or false, not %s", operand.excerpt())
	}
	return nil
}

// parseValueRule parses a rule about a value.
func parseValueRule(n jsonNode) (valueRule, error) {
	if n.members == nil {
		return parseEqual(n)
	}
	if len(n.members) != 1 {
		return valueRule{}, n.faultf("it has %d operators: give each an object of its own in the list", len(n.members))
	}
	operator, operand := n.members[0].fieldName, n.members[0].jsonNode
	switch operator {
	case "anything-but":
		excluded, err := parseExcluded(operand)
		return valueRule{ruleKind: isNoneOf, excluded: excluded}, err
	case "numeric":
		limits, err := parseLimits(operand)
		return valueRule{ruleKind: isNumber, numberLimits: limits}, err
	}
	if kind, known := textOperators[operator]; known {
		return parseText(kind, operand)
	}
	return valueRule{}, n.faultf("there is no operator %q: choose anything-but, equals-ignore-case, exists, numeric, prefix or suffix", operator)
}

// parseEqual parses a value that must be equal.
func parseEqual(n jsonNode) (valueRule, error) {
	switch {
	case n.elements != nil || n.members != nil:
		return valueRule{}, n.faultf(`%s is not a rule: write a text, a number, true, false, null, or an operator such as {"prefix": "a"}`, n.excerpt())
	case n.isText():
		return parseText(isText, n)
	case n.isNumber():
		return valueRule{ruleKind: isNumber, numberLimits: []numberLimit{{limit: decimalOf(n), equal: true}}}, nil
	}
	return valueRule{ruleKind: isLiteral, text: n.rawText}, nil
}

// parseText parses the text of a rule.
func parseText(kind ruleKind, n jsonNode) (valueRule, error) {
	if !n.isText() {
		return valueRule{}, n.faultf("it needs a text, not %s", n.excerpt())
	}
	text := n.decodeText()
	return valueRule{ruleKind: kind, text: text, holdsReplacement: strings.ContainsRune(text, utf8.RuneError)}, nil
}

// parseExcluded parses the operand of anything-but.
func parseExcluded(n jsonNode) ([]valueRule, error) {
	if n.members == nil {
		return parseEach(n, parseEqual)
	}
	if len(n.members) != 1 {
		return nil, n.faultf("it has %d operators: choose one of prefix, suffix or equals-ignore-case", len(n.members))
	}
	operator, operand := n.members[0].fieldName, n.members[0].jsonNode
	kind, known := textOperators[operator]
	if !known {
		return nil, n.faultf("there is no operator %q in anything-but: choose prefix, suffix or equals-ignore-case", operator)
	}
	return parseEach(operand, func(n jsonNode) (valueRule, error) {
		if kind != foldsTo && n.rawText == `""` {
			return valueRule{}, n.faultf("every text begins and ends with an empty text: write a longer one")
		}
		return parseText(kind, n)
	})
}

// parseEach parses a value, or each value of a list.
func parseEach(n jsonNode, parse func(jsonNode) (valueRule, error)) (rules []valueRule, err error) {
	values := n.elements
	if values == nil {
		values = []jsonNode{n}
	}
	if len(values) == 0 {
		return nil, n.faultf("the list is empty: write the values that do not match")
	}
	for _, value := range values {
		r, err := parse(value)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// decimalOf returns the number of a node that is one.
func decimalOf(n jsonNode) decimalNumber {
	d, _ := parseDecimal([]byte(n.rawText)) // it was parsed before
	return d
}

// parseLimits parses the operand of numeric: one comparison, or a lower and an upper
// bound.
func parseLimits(n jsonNode) ([]numberLimit, error) {
	const usage = `write ["=", 1], [">=", 1], or a range such as [">", 0, "<=", 5]`
	if len(n.elements) != 2 && len(n.elements) != 4 {
		return nil, n.faultf("%s is not a comparison: %s", n.excerpt(), usage)
	}
	var limits []numberLimit
	for i := 0; i < len(n.elements); i += 2 {
		operator, number := n.elements[i], n.elements[i+1]
		if !number.isNumber() {
			return nil, number.faultf("%s is not a number: %s", number.excerpt(), usage)
		}
		l := numberLimit{limit: decimalOf(number)}
		switch operator.rawText {
		case `"="`:
			l.equal = true
		case `"<"`:
			l.smaller = true
		case `"<="`:
			l.smaller, l.equal = true, true
		case `">"`:
			l.greater = true
		case `">="`:
			l.greater, l.equal = true, true
		default:
			return nil, operator.faultf("there is no comparison %s: %s", operator.excerpt(), usage)
		}
		limits = append(limits, l)
	}
	if len(limits) == 2 {
		return limits, checkRange(n, limits[0], limits[1])
	}
	return limits, nil
}

// checkRange refuses two comparisons that are not a lower and an upper bound with numbers
// between them.
func checkRange(n jsonNode, lower, upper numberLimit) error {
	if !lower.greater || !upper.smaller {
		return n.faultf(`a range has a lower bound and then an upper one: write it as [">", 0, "<=", 5]`)
	}
	if sign := lower.limit.compare(&upper.limit); sign > 0 || sign == 0 && !(lower.equal && upper.equal) {
		return n.faultf("no number is in the range %s: exchange the bounds", n.excerpt())
	}
	return nil
}
