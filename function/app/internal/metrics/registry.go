package metrics

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	victoria "github.com/VictoriaMetrics/metrics"
)

// family describes a metric.
type family struct {
	kind, name, help string
	bounds           []float64 // of the buckets of a histogram
	labels           []string  // in alphabetical order; values are given in this order
}

func counter(name, help string, labels ...string) *family {
	return &family{kind: "counter", name: name, help: help, labels: labels}
}

func gauge(name, help string, labels ...string) *family {
	return &family{kind: "gauge", name: name, help: help, labels: labels}
}

func histogram(name, help string, bounds []float64, labels ...string) *family {
	return &family{kind: "histogram", name: name, help: help, bounds: bounds, labels: labels}
}

// registry has the series of families. Each family has a set of its own, because the library
// knows no help texts and writes types only if a switch of the whole process is on. The map is
// complete before it is shared, and a set is safe for concurrent use.
type registry map[*family]*victoria.Set

func newRegistry(families ...*family) registry {
	r := registry{}
	for _, f := range families {
		r[f] = victoria.NewSet()
	}
	return r
}

// add adds to a counter. Zero begins its series.
func (r registry) add(f *family, n float64, values ...string) {
	r[f].GetOrCreateFloatCounter(f.series(values)).Add(n)
}

// set sets a gauge.
func (r registry) set(f *family, value float64, values ...string) {
	r[f].GetOrCreateGauge(f.series(values), nil).Set(value)
}

// observe counts an observation in a histogram.
func (r registry) observe(f *family, value float64, values ...string) {
	r[f].GetOrCreatePrometheusHistogramExt(f.series(values), f.bounds).Update(value)
}

var escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// series names a series as the library and the text format do: name{label="value"}.
func (f *family) series(values []string) string {
	pairs := make([]string, len(f.labels))
	for i, label := range f.labels {
		pairs[i] = label + `="` + escapes.Replace(values[i]) + `"`
	}
	if len(pairs) == 0 {
		return f.name
	}
	return f.name + "{" + strings.Join(pairs, ",") + "}"
}

// text writes the families that have series in Prometheus' text format, in the order of their
// names: https://prometheus.io/docs/instrumenting/exposition_formats/
func (r registry) text() []byte {
	var text, series bytes.Buffer
	for _, f := range slices.SortedFunc(maps.Keys(r), func(a, b *family) int { return cmp.Compare(a.name, b.name) }) {
		series.Reset()
		r[f].WritePrometheus(&series)
		lines := series.String()
		for strings.HasPrefix(lines, "#") { // a handler of the app has called metrics.ExposeMetadata
			_, lines, _ = strings.Cut(lines, "\n")
		}
		if lines != "" {
			fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s %s\n%s", f.name, f.help, f.name, f.kind, lines)
		}
	}
	return text.Bytes()
}
