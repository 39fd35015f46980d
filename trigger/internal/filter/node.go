package filter

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// jsonNode is a JSON value of a pattern.
type jsonNode struct {
	place    string // in the pattern, for errors
	rawText  string
	members  []jsonMember // of an object, in their order; not nil
	elements []jsonNode   // of a list; not nil
}

// jsonMember is a field of an object.
type jsonMember struct {
	fieldName string
	jsonNode
}

// parseNodes parses the text of the pattern with that number.
func parseNodes(number int, text string) (jsonNode, error) {
	place := fmt.Sprintf("pattern %d", number)
	if err := json.Unmarshal([]byte(text), new(json.RawMessage)); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			place = fmt.Sprintf("%s, byte %d", place, syntax.Offset)
		}
		return jsonNode{}, fmt.Errorf("%s: it is not JSON: %w", place, err)
	}
	p := nodeParser{rootPlace: place, patternText: text, decoder: json.NewDecoder(strings.NewReader(text))}
	return p.parseNode(place), nil
}

// nodeParser parses a text that is valid JSON.
type nodeParser struct {
	rootPlace, patternText string
	decoder                *json.Decoder
}

// parseNode parses the next value.
func (p *nodeParser) parseNode(place string) jsonNode {
	n := jsonNode{place: place}
	from := p.decoder.InputOffset()
	switch p.nextToken() {
	case json.Delim('{'):
		n.members = []jsonMember{}
		for p.decoder.More() {
			name, _ := p.nextToken().(string)
			n.members = append(n.members, jsonMember{name, p.parseNode(p.placeOf(place, name))})
		}
		p.nextToken()
	case json.Delim('['):
		n.elements = []jsonNode{}
		for p.decoder.More() {
			n.elements = append(n.elements, p.parseNode(fmt.Sprintf("%s[%d]", place, len(n.elements))))
		}
		p.nextToken()
	}
	n.rawText = strings.TrimLeft(p.patternText[from:p.decoder.InputOffset()], " \t\r\n:,")
	return n
}

func (p *nodeParser) nextToken() json.Token {
	token, _ := p.decoder.Token() // the text is valid
	return token
}

// placeOf returns the place of a field in an object.
func (p *nodeParser) placeOf(object, name string) string {
	if name == "" || strings.ContainsAny(name, `.[]" `) {
		name = strconv.Quote(name)
	}
	if object == p.rootPlace {
		return object + ", at " + name
	}
	return object + "." + name
}

// faultf returns an error about the node.
func (n jsonNode) faultf(format string, args ...any) error {
	return fmt.Errorf("%s: %s", n.place, fmt.Sprintf(format, args...))
}

// excerpt is the node's text for errors.
func (n jsonNode) excerpt() string {
	const longest = 40
	if len(n.rawText) <= longest {
		return n.rawText
	}
	return strings.ToValidUTF8(n.rawText[:longest], "") + "…"
}

func (n jsonNode) isText() bool { return n.rawText[0] == '"' }

func (n jsonNode) isNumber() bool {
	return n.rawText[0] == '-' || n.rawText[0] >= '0' && n.rawText[0] <= '9'
}

// decodeText decodes a node that is a text.
func (n jsonNode) decodeText() (text string) {
	_ = json.Unmarshal([]byte(n.rawText), &text) // it was parsed before
	return text
}
