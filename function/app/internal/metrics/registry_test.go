package metrics

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	victoria "github.com/VictoriaMetrics/metrics"

	"halley/trigger"
)

// The text is that of Prometheus' format, whether or not a handler has switched on the metadata
// of the library. The tests of halley/function/app/otel read it with Prometheus' own parser.
func TestTextHasFamiliesWithTheirSeries(t *testing.T) {
	const odd = "a \"quoted\" C:\\path\\\nin two lines, {le=\"1\"} "
	count := counter("halley_c_total", "A count.", functionLabel, outcomeLabel)
	seconds := histogram("halley_b_seconds", "Durations.", victoria.ExponentialBuckets(0.001, 4, 3), functionLabel)
	level, reading := gauge("halley_a", "A level."), gauge("halley_d", "A reading.", functionLabel)
	r := newRegistry(count, seconds, gauge("halley_none", "No series.", rangeLabel), level, reading)
	r.add(count, 0, "orders", "ok")
	r.add(count, 2.5, "orders", odd)
	r.add(count, 4, "orders", odd)
	for _, value := range []float64{0.001, 0.0011, 0.004, 7.5, 0} {
		r.observe(seconds, value, "orders")
	}
	r.set(level, -3)
	r.set(level, math.Inf(1))
	r.set(reading, 1<<40, "high")
	r.set(reading, math.Inf(-1), "low")
	r.set(reading, math.NaN(), "nan")
	want := `# HELP halley_a A level.
# TYPE halley_a gauge
halley_a +Inf
# HELP halley_b_seconds Durations.
# TYPE halley_b_seconds histogram
halley_b_seconds_bucket{function="orders",le="0.001"} 2
halley_b_seconds_bucket{function="orders",le="0.004"} 4
halley_b_seconds_bucket{function="orders",le="0.016"} 4
halley_b_seconds_bucket{function="orders",le="+Inf"} 5
halley_b_seconds_sum{function="orders"} 7.5061
halley_b_seconds_count{function="orders"} 5
# HELP halley_c_total A count.
# TYPE halley_c_total counter
halley_c_total{function="orders",outcome="a \"quoted\" C:\\path\\\nin two lines, {le=\"1\"} "} 6.5
halley_c_total{function="orders",outcome="ok"} 0
# HELP halley_d A reading.
# TYPE halley_d gauge
halley_d{function="high"} 1099511627776
halley_d{function="low"} -Inf
halley_d{function="nan"} NaN
`
	for _, isExposed := range []bool{false, true} {
		victoria.ExposeMetadata(isExposed)
		if got := string(r.text()); got != want {
			t.Errorf("metadata of the library %t:\n%s", isExposed, got)
		}
	}
	victoria.ExposeMetadata(false)
}

// Equal labels are one series, in whichever order families name them, and Prometheus refuses a
// text with a series twice.
func TestLabelsAreInAlphabeticalOrder(t *testing.T) {
	m := New(nil)
	for _, r := range []registry{m.counts, readStatus(nil)} {
		for f := range r {
			if !slices.IsSorted(f.labels) {
				t.Errorf("%s has the labels %q", f.name, f.labels)
			}
			if strings.ContainsAny(f.help, "\\\n") {
				t.Errorf("the help text of %s needs escapes: %q", f.name, f.help)
			}
		}
	}
}

// A range that has left the host leaves the metrics, and the counters of its function stay.
func TestRangesLeaveTheMetrics(t *testing.T) {
	hosts := []trigger.Status{{Functions: []trigger.FunctionStatus{{Name: "orders", Ranges: []trigger.RangeStatus{{Range: "1"}, {Range: "2"}}}}}}
	m := New(func() []trigger.Status { return hosts })
	m.AddFunction("orders")
	read := func() string {
		names := slices.Collect(maps.Keys(m.Values()))
		names = slices.DeleteFunc(names, func(name string) bool {
			return !strings.HasPrefix(name, waitingKeysName) && !strings.HasPrefix(name, problemName) && !strings.HasPrefix(name, deadLettersName)
		})
		slices.Sort(names)
		return strings.Join(names, "\n")
	}
	const stays, problem, first, second = `halley_dead_letters_total{function="orders"}`, "\n" + `halley_function_problem{function="orders"}`,
		"\n" + `halley_waiting_keys{function="orders",range="1"}`, "\n" + `halley_waiting_keys{function="orders",range="2"}`
	if got := read(); got != stays+problem+first+second {
		t.Errorf("two ranges:\n%s", got)
	}
	hosts[0].Functions[0].Ranges = hosts[0].Functions[0].Ranges[:1]
	if got := read(); got != stays+problem+first {
		t.Errorf("one range:\n%s", got)
	}
	hosts = nil
	if got := read(); got != stays {
		t.Errorf("no host:\n%s", got)
	}
}

// The metrics are read while hosts count.
func TestMetricsAreReadWhileTheyMove(t *testing.T) {
	m := New(func() []trigger.Status {
		return []trigger.Status{{ReadAheadBytes: 1, Functions: []trigger.FunctionStatus{{Name: "orders"}}}}
	})
	const goroutines, calls = 4, 50
	var counting sync.WaitGroup
	for i := range goroutines {
		counting.Go(func() {
			for range calls {
				m.Observe(trigger.Event{Kind: trigger.EventDelivered, Function: fmt.Sprint("orders", i%2), Changes: 2, Handled: 2})
			}
		})
	}
	counted := make(chan struct{})
	go func() { counting.Wait(); close(counted) }()
	for reading := true; reading; {
		select {
		case <-counted:
			reading = false
		default:
			m.Values()
		}
	}
	values := m.Values()
	for _, name := range []string{"orders0", "orders1"} {
		delivered := values[fmt.Sprintf(`halley_changes_total{function=%q,outcome="delivered"}`, name)]
		count, sum := values[fmt.Sprintf("halley_batch_changes_count{function=%q}", name)], values[fmt.Sprintf("halley_batch_changes_sum{function=%q}", name)]
		if delivered != goroutines*calls || count != goroutines*calls/2 || sum != goroutines*calls {
			t.Errorf("%s: %v delivered, %v calls of %v", name, delivered, count, sum)
		}
	}
	for name := range values {
		if strings.HasPrefix(name, "#") || strings.Contains(name, "_bucket") {
			t.Errorf("value of %s", name)
		}
	}
}
