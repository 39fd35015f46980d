package filter

// matchObject evaluates the object at i. It returns the results that hold, and the index
// after the object.
func (o *objectTest) matchObject(b []byte, i int) (results idSet, end int) {
	if i = skipSpace(b, i+1); byteAt(b, i) == '}' {
		return o.ofMissing, i + 1
	}
	held := o.heldMissing
	for byteAt(b, i) == '"' {
		quote, escaped := nameEnd(b, i+1)
		if quote == notJSON {
			return results, notJSON
		}
		var f *fieldTest
		if name := b[i+1 : quote]; escaped || o.nameBits&nameBit(name) != 0 {
			f = o.findField(name, escaped)
		}
		if i = skipSpace(b, quote+1); byteAt(b, i) != ':' {
			return results, notJSON
		}
		i = skipSpace(b, i+1)
		if f == nil {
			i = skipValue(b, i)
		} else {
			found := fieldFindings{}
			i = f.findValues(b, i, &found)
			held = held&^f.conditions | f.conditionsOf(&found) // an earlier field of this name does not count
		}
		if i == notJSON {
			return results, notJSON
		}
		if i = skipSpace(b, i); byteAt(b, i) == '}' {
			return o.resultsOf(held), i + 1
		}
		if byteAt(b, i) != ',' {
			return results, notJSON
		}
		i = skipSpace(b, i+1)
	}
	return results, notJSON
}

// findField returns the field of a name, or nil if no pattern asks for it.
func (o *objectTest) findField(name []byte, escaped bool) *fieldTest {
	if escaped || o.holdReplacement {
		for i := range o.fieldTests {
			if sameText(name, o.fieldTests[i].fieldName, sameRune) {
				return &o.fieldTests[i]
			}
		}
		return nil
	}
	for i := range o.fieldTests {
		if string(name) == o.fieldTests[i].fieldName {
			return &o.fieldTests[i]
		}
	}
	return nil
}

// fieldFindings are what the value of a field has shown.
type fieldFindings struct {
	hasValue  bool // there is a text, a number, true, false or null
	hasObject bool
	matched   idSet // conditions with a rule that matches
	some      idSet // results of the inner patterns that hold for some object
	every     idSet // and for every object
}

// conditionsOf returns the conditions of the field that hold.
func (f *fieldTest) conditionsOf(found *fieldFindings) (held idSet) {
	held = found.matched
	if found.hasValue {
		held |= f.ifPresent
	} else {
		held |= f.ifMissing
	}
	if f.inner == nil {
		return held
	}
	if !found.hasObject {
		found.some, found.every = f.inner.ofMissing, f.inner.ofMissing
	}
	results := found.some&^f.inner.everyObject | found.every&f.inner.everyObject
	for _, t := range f.innerTests {
		if results.has(t.result) {
			held.add(t.condition)
		}
	}
	return held
}

// findValues evaluates the value at i, and if it is an array all values in it. It
// returns the index after the value.
func (f *fieldTest) findValues(b []byte, i int, found *fieldFindings) int {
	for depth := 0; i < len(b); {
		if b[i] == '[' {
			if i = skipSpace(b, i+1); i == len(b) || b[i] != ']' {
				depth++
				continue
			}
			i++
		} else if i = f.findValue(b, i, found); i == notJSON {
			return notJSON
		}
		for ; depth > 0; depth-- {
			if i = skipSpace(b, i); i == len(b) || b[i] != ']' {
				break
			}
			i++
		}
		if depth == 0 {
			return i
		}
		if byteAt(b, i) != ',' {
			return notJSON
		}
		i = skipSpace(b, i+1)
	}
	return notJSON
}

// findValue evaluates the value at i, which is not an array.
func (f *fieldTest) findValue(b []byte, i int, found *fieldFindings) int {
	if b[i] == '{' {
		return f.findObject(b, i, found)
	}
	v, end := valueAt(b, i)
	if end == notJSON {
		return notJSON
	}
	found.hasValue = true
	for i := range f.ruleTests {
		t := &f.ruleTests[i]
		for j := range t.rules {
			if t.rules[j].matches(v) {
				found.matched.add(t.condition)
				break
			}
		}
	}
	return end
}

func (f *fieldTest) findObject(b []byte, i int, found *fieldFindings) int {
	if f.inner == nil {
		return skipBrackets(b, i)
	}
	results, end := f.inner.matchObject(b, i)
	if !found.hasObject {
		found.hasObject, found.every = true, results
	}
	found.some |= results
	found.every &= results
	return end
}
