package filter

import "slices"

// parsedPattern is a pattern as written.
type parsedPattern struct {
	fields  []parsedField
	choices [][]*parsedPattern // of $or
}

// parsedField is a field of a pattern.
type parsedField struct {
	fieldName string
	inner     *parsedPattern // of the objects in the field; if it is nil, one of the following must hold

	valueRules           []valueRule // about a value of the field
	ifPresent, ifMissing bool        // the field has a value, or none
}

// asksForMissing reports whether the pattern asks for missing fields only.
func (p *parsedPattern) asksForMissing() bool {
	for _, f := range p.fields {
		if f.inner != nil && !f.inner.asksForMissing() || f.inner == nil && (f.ifPresent || len(f.valueRules) > 0) {
			return false
		}
	}
	for _, alternatives := range p.choices {
		if slices.ContainsFunc(alternatives, func(p *parsedPattern) bool { return !p.asksForMissing() }) {
			return false
		}
	}
	return true
}

// parsePattern parses the text of the pattern with that number. Errors begin with the
// place of the fault.
func parsePattern(number int, text string) (*parsedPattern, error) {
	root, err := parseNodes(number, text)
	if err != nil {
		return nil, err
	}
	return parseFields(root)
}

// parseFields parses an object of fields.
func parseFields(n jsonNode) (*parsedPattern, error) {
	switch {
	case n.members == nil:
		return nil, n.faultf(`%s is not a pattern: write an object, such as {"status": ["open"]}`, n.excerpt())
	case len(n.members) == 0:
		return nil, n.faultf("an object without fields matches everything: name a field, or remove it")
	}
	p := &parsedPattern{}
	for i, m := range n.members {
		if slices.ContainsFunc(n.members[:i], func(other jsonMember) bool { return other.fieldName == m.fieldName }) {
			return nil, m.faultf("the field is named twice: put all its rules into one list")
		}
		if err := parseMember(p, m); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// parseMember adds a field, or alternatives, to a pattern.
func parseMember(p *parsedPattern, m jsonMember) (err error) {
	f := parsedField{fieldName: m.fieldName}
	switch {
	case m.fieldName == "$or":
		return parseChoice(p, m.jsonNode)
	case m.members != nil:
		f.inner, err = parseFields(m.jsonNode)
	case m.elements != nil:
		err = parseRules(&f, m.jsonNode)
	default:
		return m.faultf("rules are in a list: write [%s]", m.excerpt())
	}
	p.fields = append(p.fields, f)
	return err
}

// parseChoice parses the alternatives of $or.
func parseChoice(p *parsedPattern, n jsonNode) error {
	if len(n.elements) < 2 {
		return n.faultf("it needs a list of two or more patterns, one of which must match")
	}
	var alternatives []*parsedPattern
	for _, e := range n.elements {
		alternative, err := parseFields(e)
		if err != nil {
			return err
		}
		alternatives = append(alternatives, alternative)
	}
	p.choices = append(p.choices, alternatives)
	return nil
}
