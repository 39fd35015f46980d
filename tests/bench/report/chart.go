package report

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Chart is a picture of curves. Both axes begin at 0, or are logarithmic.
type Chart struct {
	File         string // name of the picture's file, without .svg
	Title        string
	XName, YName string // with the units
	LogX, LogY   bool
	Curves       []Curve
}

// Curve is a named line through points, in the order of X.
type Curve struct {
	Name   string
	Points []Point
}

// Point is a point of a curve. On a logarithmic axis its coordinate is above 0.
type Point struct{ X, Y float64 }

// The geometry of a picture, in pixels.
const (
	chartWidth, chartHeight = 720, 400
	plotLeft, plotRight     = 76, 540
	plotTop, plotBottom     = 44, 340
)

// curveColors are of the palette of Okabe and Ito, which people tell apart whatever
// their colour vision: https://jfly.uni-koeln.de/color/
var curveColors = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"}

// axis maps values to pixels.
type axis struct {
	low, high float64 // values at the ends
	from, to  float64 // pixels at the ends
	log       bool
	ticks     []float64
}

func (a axis) at(value float64) float64 {
	share := (value - a.low) / (a.high - a.low)
	if a.log {
		share = math.Log(value/a.low) / math.Log(a.high/a.low)
	}
	return a.from + share*(a.to-a.from)
}

// newAxis returns an axis that shows all the values, with round numbers at its ticks.
func newAxis(values []float64, log bool, from, to float64) axis {
	a := axis{from: from, to: to, log: log}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	if log {
		a.low = math.Pow(10, math.Floor(math.Log10(low)))
		a.high = max(math.Pow(10, math.Ceil(math.Log10(high))), a.low*10)
		for t := a.low; t <= a.high*1.001; t *= 10 {
			a.ticks = append(a.ticks, t)
		}
		return a
	}
	step := roundStep(max(high, 0) / 5)
	a.high = max(math.Ceil(high/step), 1) * step
	for i := 0; float64(i)*step <= a.high*1.001; i++ {
		a.ticks = append(a.ticks, float64(i)*step)
	}
	return a
}

// roundStep returns 1, 2 or 5 times a power of ten, at least about the value.
func roundStep(value float64) float64 {
	if value <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(value)))
	for _, digit := range []float64{1, 2, 5} {
		if value <= digit*power {
			return digit * power
		}
	}
	return 10 * power
}

// SVG returns the picture. It refers to nothing outside of itself.
func (c Chart) SVG() string {
	var xs, ys []float64
	for _, curve := range c.Curves {
		for _, p := range curve.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	x, y := newAxis(xs, c.LogX, plotLeft, plotRight), newAxis(ys, c.LogY, plotBottom, plotTop)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" font-family="sans-serif" font-size="13">`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", html.EscapeString(c.Title))
	text := func(x, y float64, attributes, content string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(content))
	}
	line := func(x1, y1, x2, y2 float64, color string) {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, color)
	}
	text(plotLeft, 24, `font-size="15" font-weight="bold" fill="#222"`, c.Title)
	for _, t := range y.ticks {
		line(plotLeft, y.at(t), plotRight, y.at(t), "#ddd")
		text(plotLeft-8, y.at(t)+4, `text-anchor="end" fill="#444"`, tickLabel(t))
	}
	for _, t := range x.ticks {
		line(x.at(t), plotBottom, x.at(t), plotBottom+5, "#444")
		text(x.at(t), plotBottom+20, `text-anchor="middle" fill="#444"`, tickLabel(t))
	}
	line(plotLeft, plotBottom, plotRight, plotBottom, "#444")
	line(plotLeft, plotTop, plotLeft, plotBottom, "#444")
	text((plotLeft+plotRight)/2, plotBottom+44, `text-anchor="middle" fill="#222"`, c.XName)
	middle := float64(plotTop+plotBottom) / 2
	text(18, middle, fmt.Sprintf(`text-anchor="middle" fill="#222" transform="rotate(-90 18 %.1f)"`, middle), c.YName)
	for i, curve := range c.Curves {
		color := curveColors[i%len(curveColors)]
		var path []string
		for _, p := range curve.Points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x.at(p.X), y.at(p.Y)))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", x.at(p.X), y.at(p.Y), color)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " "), color)
		legend := float64(plotTop + 14 + 22*i)
		fmt.Fprintf(&b, `<rect x="%d" y="%.1f" width="14" height="4" fill="%s"/>`+"\n", plotRight+16, legend-6, color)
		text(plotRight+36, legend, `fill="#222"`, curve.Name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// tickLabel writes the number at a tick without digits that it does not need.
func tickLabel(value float64) string {
	if value >= 1000 {
		return thousands(fmt.Sprintf("%.0f", value))
	}
	return fmt.Sprintf("%.4g", value)
}
