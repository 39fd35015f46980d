package filter

import (
	"math"
	"strings"
	"unicode/utf8"
)

// objectTest is what all patterns ask of the object at one place of a document: of the
// document itself, or of an object inside of it. Patterns that have a field in common
// share it, so that an object is scanned once for all of them.
type objectTest struct {
	fieldTests      []fieldTest // in the order of the patterns
	nameBits        uint64      // of the fields' names, see nameBit
	holdReplacement bool        // a name has U+FFFD, see valueRule
	conditionCount  int         // of all fields

	patternTests []conjunction // one for each pattern of this place
	everyObject  idSet         // results that all objects of an array must have, instead of one
	heldMissing  idSet         // conditions that hold if the object has none of the fields
	ofMissing    idSet         // results of an object that has none of the fields
}

// fieldTest is what the patterns ask of one field of an object. Each test and each inner
// pattern is a condition of the object.
type fieldTest struct {
	fieldName  string
	conditions idSet
	ifPresent  idSet // conditions that hold if the field has a value
	ifMissing  idSet // conditions that hold if it has none
	ruleTests  []ruleTest
	inner      *objectTest // of the objects in the field; nil if no pattern goes on in it
	innerTests []innerTest
}

// ruleTest is a list of rules, one of which must match.
type ruleTest struct {
	condition int
	rules     []valueRule
}

// innerTest is a pattern for the objects in a field.
type innerTest struct{ condition, result int }

// conjunction is one pattern: all its conditions hold, and of each choice one
// alternative.
type conjunction struct {
	conditions idSet
	choices    [][]conjunction
}

// maxConditions bounds the conditions, and the patterns, of one object.
const maxConditions = 64

// idSet is a set of conditions or of results.
type idSet uint64

func (s idSet) has(id int) bool { return s>>id&1 == 1 }
func (s *idSet) add(id int)     { *s |= 1 << id }

// addResult adds a pattern for the object. It returns false if there are too many
// conditions.
func (o *objectTest) addResult(p *parsedPattern) bool {
	c, ok := o.addPattern(p)
	if !ok || len(o.patternTests) == maxConditions {
		return false
	}
	if p.asksForMissing() {
		o.everyObject.add(len(o.patternTests))
	}
	o.patternTests = append(o.patternTests, c)
	return true
}

// addPattern adds the conditions of a pattern.
func (o *objectTest) addPattern(p *parsedPattern) (c conjunction, ok bool) {
	for i := range p.fields {
		if o.conditionCount == maxConditions || !o.addField(&p.fields[i]) {
			return c, false
		}
		c.conditions.add(o.conditionCount)
		o.conditionCount++
	}
	for _, alternatives := range p.choices {
		choice := make([]conjunction, len(alternatives))
		for i, alternative := range alternatives {
			if choice[i], ok = o.addPattern(alternative); !ok {
				return c, false
			}
		}
		c.choices = append(c.choices, choice)
	}
	return c, true
}

// addField adds what a pattern asks of a field as the next condition.
func (o *objectTest) addField(wanted *parsedField) bool {
	f := o.fieldNamed(wanted.fieldName)
	f.conditions.add(o.conditionCount)
	if wanted.inner == nil {
		f.addTest(o.conditionCount, wanted)
		return true
	}
	if f.inner == nil {
		f.inner = &objectTest{}
	}
	f.innerTests = append(f.innerTests, innerTest{o.conditionCount, len(f.inner.patternTests)})
	return f.inner.addResult(wanted.inner)
}

func (f *fieldTest) addTest(condition int, wanted *parsedField) {
	if wanted.ifPresent {
		f.ifPresent.add(condition)
	}
	if wanted.ifMissing {
		f.ifMissing.add(condition)
	}
	if len(wanted.valueRules) > 0 {
		f.ruleTests = append(f.ruleTests, ruleTest{condition, wanted.valueRules})
	}
}

// nameBit returns a bit for a name. Names with different bits are different: by it most
// names in a document are told from the few in the patterns.
func nameBit(name []byte) uint64 {
	if len(name) == 0 {
		return 1
	}
	return 1 << (uint(len(name)+7*int(name[0])+11*int(name[len(name)-1])) % 64)
}

func (o *objectTest) fieldNamed(name string) *fieldTest {
	for i := range o.fieldTests {
		if o.fieldTests[i].fieldName == name {
			return &o.fieldTests[i]
		}
	}
	o.nameBits |= nameBit([]byte(name))
	if strings.ContainsRune(name, utf8.RuneError) {
		o.nameBits, o.holdReplacement = math.MaxUint64, true
	}
	o.fieldTests = append(o.fieldTests, fieldTest{fieldName: name})
	return &o.fieldTests[len(o.fieldTests)-1]
}

// complete computes the results of a missing object, after all patterns were added.
func (o *objectTest) complete() {
	for i := range o.fieldTests {
		f := &o.fieldTests[i]
		if f.inner != nil {
			f.inner.complete()
		}
		found := fieldFindings{}
		o.heldMissing |= f.conditionsOf(&found)
	}
	o.ofMissing = o.resultsOf(o.heldMissing)
}

// resultsOf returns the results of an object for which these conditions hold.
func (o *objectTest) resultsOf(held idSet) (results idSet) {
	for i := range o.patternTests {
		if o.patternTests[i].holds(held) {
			results.add(i)
		}
	}
	return results
}

func (c *conjunction) holds(held idSet) bool {
	if held&c.conditions != c.conditions {
		return false
	}
	for _, choice := range c.choices {
		if !oneHolds(choice, held) {
			return false
		}
	}
	return true
}

func oneHolds(alternatives []conjunction, held idSet) bool {
	for i := range alternatives {
		if alternatives[i].holds(held) {
			return true
		}
	}
	return false
}
