// Picture draws how-it-works.svg, the way of a change through a host:
//
//	go run ./docs/picture > docs/images/how-it-works.svg
package main

import (
	"fmt"
	"html"
	"io"
	"os"
	"strings"
)

func main() {
	if err := draw(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// Sizes in pixels. A box stands in a cell of the grid.
const (
	cellWidth, cellHeight = 224, 108
	boxWidth, boxHeight   = 160, 64
	margin                = 24
	columns, rows         = 5, 3
)

// box is a step of a change or a place that it is stored in, in a cell of the grid.
type box struct {
	name        string
	column, row int
	title       string
	detail      string // second line
	stored      bool   // in the account, not in the host
}

// arrow leads from one box to another; if back is set, it leads to an earlier step.
type arrow struct {
	from, to string
	text     string
	back     bool
}

var boxes = []box{
	{"feed", 0, 0, "Change feed", "of one range", true},
	{"page", 1, 0, "Page", "read ahead, in a budget", false},
	{"filter", 2, 0, "Filter", "drops by pattern", false},
	{"lane", 3, 0, "Lane", "one key, one lane", false},
	{"batch", 4, 0, "Batch", "up to 100 changes", false},
	{"handler", 4, 1, "Handler", "your function", false},
	{"verdict", 3, 1, "Verdict", "handled, failed, skipped", false},
	{"waiting", 3, 2, "Waiting key", "backoff, in halves", false},
	{"prefix", 2, 1, "Acknowledged", "a prefix without gaps", false},
	{"writer", 1, 1, "Lease writer", "checkpoint, renewal", false},
	{"lease", 0, 1, "Lease", "owner, position, epoch", true},
	{"letters", 2, 2, "Dead letters", "document, error, stack", true},
}

var arrows = []arrow{
	{"feed", "page", "read", false},
	{"page", "filter", "", false},
	{"filter", "lane", "", false},
	{"lane", "batch", "", false},
	{"batch", "handler", "", false},
	{"handler", "verdict", "", false},
	{"verdict", "prefix", "handled", false},
	{"verdict", "waiting", "failed", false},
	{"waiting", "letters", "given up", false},
	{"letters", "prefix", "stored", false},
	{"waiting", "handler", "again", true},
	{"prefix", "writer", "", false},
	{"writer", "lease", "If-Match", false},
}

// draw writes the picture. Its colours follow the reader's light or dark scheme.
func draw(w io.Writer) error {
	var b strings.Builder
	width, height := columns*cellWidth+2*margin, rows*cellHeight+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title" font-family="system-ui, sans-serif">
<title id="title">The way of a change: from the feed through page, filter, lane, batch and handler to the checkpoint in the lease</title>
<style>
.host { fill: #f4f6f8; stroke: #c3cad2; } .step { fill: #fff; stroke: #5b6b7b; } .stored { fill: #e3edf7; stroke: #2f6296; }
text { fill: #1c2733; } .detail, .label { font-size: 11.5px; fill: #46535f; } .title { font-size: 14px; font-weight: 600; }
path { fill: none; stroke: #5b6b7b; stroke-width: 1.5; } marker path { fill: #5b6b7b; stroke: none; } .back { stroke-dasharray: 5 4; }
@media (prefers-color-scheme: dark) {
svg { background: #12171d; } .host { fill: #1a2129; stroke: #3a4653; } .step { fill: #232c36; stroke: #93a2b1; } .stored { fill: #1d344b; stroke: #6ea3d6; }
text { fill: #e8edf2; } .detail, .label { fill: #b5c0cb; } path { stroke: #93a2b1; } marker path { fill: #93a2b1; }
}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>
`, width, height)
	fmt.Fprintf(&b, `<rect class="host" x="%d" y="%d" width="%d" height="%d" rx="10"/>`+"\n", margin+cellWidth+8, margin-8, (columns-1)*cellWidth-8, rows*cellHeight+16)
	fmt.Fprintf(&b, `<text class="label" x="%d" y="%d">host: the one owner of the range</text>`+"\n", margin+cellWidth+20, margin+rows*cellHeight-6)
	at := map[string]box{}
	for _, x := range boxes {
		at[x.name] = x
	}
	for _, a := range arrows {
		if err := a.draw(&b, at); err != nil {
			return err
		}
	}
	for _, x := range boxes {
		x.draw(&b)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// corner returns the upper left corner of a box.
func (x box) corner() (left, top int) {
	return margin + x.column*cellWidth + (cellWidth-boxWidth)/2, margin + x.row*cellHeight + (cellHeight-boxHeight)/2
}

func (x box) draw(b *strings.Builder) {
	class := "step"
	if x.stored {
		class = "stored"
	}
	left, top := x.corner()
	fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="8"/>`, class, left, top, boxWidth, boxHeight)
	fmt.Fprintf(b, `<text class="title" text-anchor="middle" x="%d" y="%d">%s</text>`, left+boxWidth/2, top+28, html.EscapeString(x.title))
	fmt.Fprintf(b, `<text class="detail" text-anchor="middle" x="%d" y="%d">%s</text>`+"\n", left+boxWidth/2, top+47, html.EscapeString(x.detail))
}

// draw draws an arrow between the facing sides of its boxes. If they share neither
// row nor column, the arrow leaves sideways and turns.
func (a arrow) draw(b *strings.Builder, at map[string]box) error {
	from, found := at[a.from]
	to, known := at[a.to]
	if !found || !known {
		return fmt.Errorf("arrow %s to %s: no such box", a.from, a.to)
	}
	left, top := from.corner()
	toLeft, toTop := to.corner()
	x1, y1, x2, y2 := left+boxWidth/2, top+boxHeight/2, toLeft+boxWidth/2, toTop+boxHeight/2
	class := ""
	if a.back {
		class = ` class="back"`
	}
	var path string
	var labelX, labelY int
	switch {
	case from.row == to.row:
		side := 1
		if to.column < from.column {
			side = -1
		}
		x1, x2 = x1+side*boxWidth/2, x2-side*boxWidth/2
		path = fmt.Sprintf("M%d %dH%d", x1, y1, x2)
		labelX, labelY = (x1+x2)/2, y1-6
	case from.column == to.column:
		side := 1
		if to.row < from.row {
			side = -1
		}
		y1, y2 = y1+side*boxHeight/2, y2-side*boxHeight/2
		path = fmt.Sprintf("M%d %dV%d", x1, y1, y2)
		labelX, labelY = x1+28, (y1+y2)/2+4
	default:
		side, down := 1, 1
		if to.column < from.column {
			side = -1
		}
		if to.row < from.row {
			down = -1
		}
		x1, y2 = x1+side*boxWidth/2, y2-down*boxHeight/2
		path = fmt.Sprintf("M%d %dH%dV%d", x1, y1, x2, y2)
		labelX, labelY = x2+28, (y1+y2)/2+4
	}
	fmt.Fprintf(b, `<path%s d="%s" marker-end="url(#tip)"/>`, class, path)
	if a.text != "" {
		fmt.Fprintf(b, `<text class="label" text-anchor="middle" x="%d" y="%d">%s</text>`, labelX, labelY, html.EscapeString(a.text))
	}
	b.WriteString("\n")
	return nil
}
