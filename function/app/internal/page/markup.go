package page

import (
	"fmt"
	"html"
	"net/http"
	"strings"
	"unicode"
)

// markup writes HTML from constant formats; each %s in one is a value, which is escaped.
// (html/template would link reflection that keeps every exported method of the program:
// megabytes.)
type markup struct{ out strings.Builder }

// add writes a format with its values, inside of elements or of quoted attributes.
func (m *markup) add(format string, values ...string) {
	for _, value := range values {
		before, remainder, _ := strings.Cut(format, "%s")
		m.out.WriteString(before)
		m.out.WriteString(html.EscapeString(visible(value)))
		format = remainder
	}
	m.out.WriteString(format)
}

// table writes a table without its rows, and endTable what follows them.
func (m *markup) table(title, columns string) {
	m.add(`<section aria-label="%s"><h2>%s</h2><div class="scroll" tabindex="0" role="region" aria-label="Table of %s"><table><thead><tr>`, title, title, title)
	for name := range strings.SplitSeq(columns, "|") {
		m.add(`<th scope="col">%s</th>`, name)
	}
	m.add("</tr></thead><tbody>\n")
}

func (m *markup) endTable() { m.add("</tbody></table></div>\n") }

// cells writes cells of a row.
func (m *markup) cells(texts ...string) {
	for _, text := range texts {
		m.add("<td>%s</td>", text)
	}
}

func (m *markup) row(texts ...string) {
	m.add("<tr>")
	m.cells(texts...)
	m.add("</tr>\n")
}

// choice writes a labelled field with a list of options.
func (m *markup) choice(label, name, chosen string, options []string) {
	m.add(`<label>%s <select name="%s">`, label, name)
	for _, o := range options {
		if o == chosen {
			m.add(`<option selected>%s</option>`, o)
		} else {
			m.add(`<option>%s</option>`, o)
		}
	}
	m.add("</select></label>\n")
}

// write answers with a whole page.
func (m *markup) write(w http.ResponseWriter, status int, title string) {
	var page markup
	page.add(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>%s · Halley</title><link rel="stylesheet" href="page.css"></head>
<body class="plain"><header><h1>%s</h1></header><main>
`, title, title)
	page.out.WriteString(m.out.String())
	page.add("</main></body></html>\n")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(page.out.String())) // the viewer may have gone
}

// visible shows characters that control or reorder a text as \uXXXX, as the script does.
func visible(text string) string {
	if strings.IndexFunc(text, isHidden) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isHidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isHidden(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' && r != '\u00a0' }
