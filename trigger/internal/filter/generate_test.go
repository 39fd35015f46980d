package filter

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// generator makes patterns and documents of few names and values, so that they often
// match. Its choices are the bytes of data; after their end it always takes the first.
type generator struct{ data []byte }

func (g *generator) draw(n int) int {
	if len(g.data) == 0 {
		return 0
	}
	drawn := int(g.data[0]) % n
	g.data = g.data[1:]
	return drawn
}

func (g *generator) pick(from []string) string { return from[g.draw(len(from))] }

var (
	someNames   = []string{"a", "b", "c", "long name", "é", "a.b", "", "\ufffd"}
	someTexts   = []string{"x", "xy", "yx", "X", "", "é", "É", `"\/`, "K", "k", "\u212a", "\ufffd", "\U0001f600", "x\n\x00"}
	someNumbers = []string{
		"1", "0", "-0", "1.0", "1e0", "10e-1", "100", "1e2", "1E+2", "0.5", "5e-1", "-1", "-0.5", "0.001", "0.0010", "1.01", "10.1",
		"12345678901234567890", "12345678901234567891", "1e400", "2e400", "1e-400", "1e99999999999999999999", "1e-99999999999999999999",
	}
)

// patternText makes a pattern.
func (g *generator) patternText(depth int) string {
	var fields []string
	taken := map[string]bool{}
	for range 1 + g.draw(2) {
		name := g.pick(someNames)
		switch kind := g.draw(6); {
		case kind == 0 && depth > 0 && !taken["$or"]:
			taken["$or"] = true
			fields = append(fields, fmt.Sprintf(`"$or":[%s,%s]`, g.patternText(depth-1), g.patternText(depth-1)))
		case taken[name]:
		case kind < 3 && depth > 0:
			fields = append(fields, spell(name)+":"+g.patternText(depth-1))
		default:
			fields = append(fields, spell(name)+":"+g.rulesText())
		}
		taken[name] = true
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func (g *generator) rulesText() string {
	rules := make([]string, 1+g.draw(3))
	for i := range rules {
		switch g.draw(9) {
		case 0:
			rules[i] = g.scalarText()
		case 1:
			rules[i] = `{"exists":true}`
		case 2:
			rules[i] = `{"exists":false}`
		case 3:
			rules[i] = fmt.Sprintf(`{"prefix":%s}`, spell(g.pick(someTexts)))
		case 4:
			rules[i] = fmt.Sprintf(`{"suffix":%s}`, spell(g.pick(someTexts)))
		case 5:
			rules[i] = fmt.Sprintf(`{"equals-ignore-case":%s}`, spell(g.pick(someTexts)))
		case 6:
			rules[i] = fmt.Sprintf(`{"anything-but":%s}`, g.exclusionText())
		case 7:
			rules[i] = fmt.Sprintf(`{"numeric":["%s",%s]}`, g.pick([]string{"=", "<", "<=", ">", ">="}), g.pick(someNumbers))
		case 8:
			rules[i] = fmt.Sprintf(`{"numeric":["%s",%s,"%s",%s]}`, g.pick([]string{">", ">="}), g.pick(someNumbers), g.pick([]string{"<", "<="}), g.pick(someNumbers))
		}
	}
	return "[" + strings.Join(rules, ",") + "]"
}

func (g *generator) exclusionText() string {
	switch g.draw(4) {
	case 0:
		return g.scalarText()
	case 1:
		return fmt.Sprintf("[%s,%s]", g.scalarText(), g.scalarText())
	}
	return fmt.Sprintf(`{"%s":[%s,%s]}`, g.pick([]string{"prefix", "suffix", "equals-ignore-case"}), spell(g.pick(someTexts)), spell(g.pick(someTexts)))
}

func (g *generator) scalarText() string {
	switch g.draw(6) {
	case 0:
		return g.pick([]string{"true", "false", "null"})
	case 1, 2:
		return g.pick(someNumbers)
	}
	return spell(g.pick(someTexts))
}

// documentText makes an object with spaces, escapes and fields that are there twice.
func (g *generator) documentText(depth int) string {
	var b strings.Builder
	b.WriteString("{" + g.space())
	for i := range g.draw(5) {
		if i > 0 {
			b.WriteString("," + g.space())
		}
		b.WriteString(g.stringText(g.pick(someNames)) + g.space() + ":" + g.space() + g.valueText(depth) + g.space())
	}
	b.WriteString("}")
	return b.String()
}

func (g *generator) valueText(depth int) string {
	kind := g.draw(8)
	switch {
	case kind == 0 && depth > 0:
		return g.documentText(depth - 1)
	case kind < 3 && depth > 0:
		elements := make([]string, g.draw(4))
		for i := range elements {
			elements[i] = g.valueText(depth-1) + g.space()
		}
		return "[" + g.space() + strings.Join(elements, ","+g.space()) + "]"
	case kind == 3:
		return g.pick([]string{"true", "false", "null"})
	case kind < 6:
		return g.pick(someNumbers)
	}
	return g.stringText(g.pick(someTexts))
}

func (g *generator) space() string { return g.pick([]string{"", "", "", "", " ", "\n\t\r "}) }

// stringText spells a text with some escapes, and seldom with bytes that are no
// character.
func (g *generator) stringText(text string) string {
	if g.draw(3) > 0 {
		return spell(text)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch g.draw(3) {
		case 0:
			s := spell(string(r))
			b.WriteString(s[1 : len(s)-1])
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, [2]string{`\u%04x`, `\u%04X`}[g.draw(2)], unit)
			}
		}
	}
	b.WriteString(g.pick([]string{"", "", "", "", "", "\xff", `\ud800`, `\udc00x`, `\ud83d\u0061`}))
	b.WriteByte('"')
	return b.String()
}

// spell returns a text as JSON with as few escapes as possible.
func spell(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
