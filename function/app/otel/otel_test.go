package otel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/trace"
	metricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	datapb "go.opentelemetry.io/proto/otlp/metrics/v1"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"halley/function/app/internal/metrics"
	"halley/handlers"
	"halley/trigger"
)

// collector is an OTLP receiver over HTTP. mu guards the fields below it.
type collector struct {
	t *testing.T

	mu      sync.Mutex
	spans   []*spanpb.Span
	metrics map[string]*datapb.Metric // by name
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.URL.Path {
	case "/v1/traces":
		var request tracepb.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &request); err != nil {
			c.t.Error(err)
		}
		for _, resource := range request.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	case "/v1/metrics":
		var request metricpb.ExportMetricsServiceRequest
		if err := proto.Unmarshal(body, &request); err != nil {
			c.t.Error(err)
		}
		for _, resource := range request.ResourceMetrics {
			for _, scope := range resource.ScopeMetrics {
				for _, m := range scope.Metrics {
					c.metrics[m.Name] = m
				}
			}
		}
	default:
		c.t.Errorf("request to %s", r.URL.Path)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

const writerTrace, writerSpan = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

// batchOf makes a batch of documents.
func batchOf(documents ...string) trigger.Batch {
	b := trigger.Batch{Function: "board", Epoch: 7, Attempt: 1}
	b.Range.ID = "3"
	for _, d := range documents {
		b.Changes = append(b.Changes, trigger.Change{Document: []byte(d)})
	}
	return b
}

// A call is one span, linked once to the span that wrote its documents, and the metrics of
// the process follow them.
func TestCallsAndMetricsReachTheCollector(t *testing.T) {
	c := &collector{t: t, metrics: map[string]*datapb.Metric{}}
	server := httptest.NewServer(c)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	hooks, err := Export(t.Context(), func() []byte {
		return []byte(`# HELP halley_level A level.
# TYPE halley_level gauge
halley_level{function="board"} 1.5
# HELP halley_done_total What is done.
# TYPE halley_done_total counter
halley_done_total{function="board"} 7
# HELP halley_seconds Durations.
# TYPE halley_seconds histogram
halley_seconds_bucket{function="board",le="0.5"} 1
halley_seconds_bucket{function="board",le="1"} 2
halley_seconds_bucket{function="board",le="+Inf"} 3
halley_seconds_sum{function="board"} 2.5
halley_seconds_count{function="board"} 3
`)
	})
	if err != nil {
		t.Fatal(err)
	}
	carries := `"traceparent":"00-` + writerTrace + `-` + writerSpan + `-01","tracestate":"shop=cart,vendor=1"`
	handler := hooks.Wrap("board", func(ctx context.Context, b trigger.Batch) error {
		if !trace.SpanContextFromContext(ctx).IsValid() {
			t.Error("the handler's context has no span")
		}
		if text := handlers.Traceparent(ctx); !strings.Contains(text, trace.SpanContextFromContext(ctx).SpanID().String()) {
			t.Errorf("a handler outside of this process would get the trace context %q", text)
		}
		if len(b.Changes) == 1 {
			return errors.New("sink is down")
		}
		return nil
	})
	if err := handler(t.Context(), batchOf(`{"id":"a",`+carries+`}`, `{"id":"b",`+carries+`}`, `{"id":"c","traceparent":7}`, `{"id":"d","traceparent":"bad"}`)); err != nil {
		t.Error(err)
	}
	if err := handler(t.Context(), batchOf(`{"id":"e"}`)); err == nil {
		t.Error("the error of the handler is lost")
	}
	if err := hooks.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if err := hooks.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spans) != 2 || len(c.metrics) != 3 {
		t.Fatalf("%d spans, metrics %v", len(c.spans), c.metrics)
	}
	level, done := c.metrics["halley_level"].GetGauge().GetDataPoints()[0], c.metrics["halley_done_total"].GetSum()
	if c.metrics["halley_level"].Description != "A level." || level.GetAsDouble() != 1.5 || level.Attributes[0].Key != "function" || level.Attributes[0].Value.GetStringValue() != "board" || !done.IsMonotonic || done.DataPoints[0].GetAsDouble() != 7 {
		t.Errorf("metrics %v", c.metrics)
	}
	if h := c.metrics["halley_seconds"].GetHistogram().GetDataPoints()[0]; h.Count != 3 || h.GetSum() != 2.5 || !slices.Equal(h.ExplicitBounds, []float64{0.5, 1}) || !slices.Equal(h.BucketCounts, []uint64{1, 1, 1}) {
		t.Errorf("histogram %v", h)
	}
	first, second := c.spans[0], c.spans[1]
	if first.Name != "process board" || len(first.Links) != 1 || string(first.Links[0].TraceId) != string(decode(t, writerTrace)) || first.Kind != spanpb.Span_SPAN_KIND_CONSUMER {
		t.Errorf("span %v", first)
	}
	if a := first.Links[0].Attributes; len(a) != 1 || a[0].Key != "w3c.tracestate" || a[0].Value.GetStringValue() != "shop=cart,vendor=1" {
		t.Errorf("the link has the attributes %v", a)
	}
	if second.Status.GetCode() != spanpb.Status_STATUS_CODE_ERROR || len(second.Links) != 0 || len(second.Events) != 1 {
		t.Errorf("span %v", second)
	}
}

func decode(t *testing.T, hex string) []byte {
	t.Helper()
	id, err := trace.TraceIDFromHex(hex)
	if err != nil {
		t.Fatal(err)
	}
	return id[:]
}

func TestVariablesSwitchExportsOff(t *testing.T) {
	for _, test := range []struct {
		name, value   string
		wraps, export bool
	}{
		{"OTEL_SDK_DISABLED", "true", false, false},
		{"OTEL_TRACES_EXPORTER", "none", false, true},
		{"OTEL_METRICS_EXPORTER", "none", true, true},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(test.name, test.value)
			hooks, err := Export(t.Context(), func() []byte { return nil })
			if err != nil || (hooks.Wrap != nil) != test.wraps || (hooks.Stop != nil) != test.export {
				t.Errorf("hooks %+v, %v", hooks, err)
			}
			if hooks.Stop != nil {
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				_ = hooks.Stop(ended) // there is no collector
			}
		})
	}
}

func TestUnknownProtocolIsRefused(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	if _, err := Export(t.Context(), func() []byte { return nil }); err == nil || !strings.Contains(err.Error(), "write grpc or http/protobuf") {
		t.Errorf("error %v", err)
	}
}

// Prometheus' own parser reads each metric, value and label of an app as it was counted.
func TestPrometheusReadsTheMetrics(t *testing.T) {
	const odd = "a \"quoted\" C:\\path\\\nin two lines, {le=\"1\"} "
	ranges := []trigger.RangeStatus{{Range: "0", BehindSeconds: math.Inf(1)}, {Range: "1", BehindSeconds: math.NaN()}}
	m := metrics.New(func() []trigger.Status {
		return []trigger.Status{{ReadAheadBytes: 1 << 40, Functions: []trigger.FunctionStatus{{Name: odd, Ranges: ranges}}}}
	})
	m.AddFunction(odd)
	m.Observe(trigger.Event{Kind: trigger.EventDelivered, Function: odd, Changes: 3, Handled: 3, Duration: 4 * time.Millisecond})
	m.ObserveSink(odd, handlers.SinkUse{Sink: "redis"})
	families, err := gatherer(m.Text).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		if f.GetHelp() == "" || f.GetType() == dto.MetricType_UNTYPED {
			t.Errorf("%s has the type %s and the help text %q", f.GetName(), f.GetType(), f.GetHelp())
		}
		for _, one := range f.Metric {
			var labels []string
			for _, l := range one.Label {
				labels = append(labels, l.GetName()+"="+strings.ReplaceAll(l.GetValue(), odd, "ODD"))
			}
			value := one.GetCounter().GetValue() + one.GetGauge().GetValue() + one.GetHistogram().GetSampleSum()
			got = append(got, fmt.Sprintf("%s %s%s %v", f.GetType(), f.GetName(), labels, value))
			if f.GetName() == "halley_handler_duration_seconds" && (len(one.Histogram.Bucket) != 11 || one.Histogram.Bucket[1].GetUpperBound() != 0.004 || one.Histogram.Bucket[1].GetCumulativeCount() != 1) {
				t.Errorf("histogram %v", one.Histogram)
			}
		}
	}
	for _, want := range []string{
		"COUNTER halley_changes_total[function=ODD outcome=delivered] 3", "COUNTER halley_changes_total[function=ODD outcome=failed] 0",
		"COUNTER halley_sink_requests_total[function=ODD outcome=timeout sink=redis] 0", "HISTOGRAM halley_batch_changes[function=ODD] 3",
		"HISTOGRAM halley_handler_duration_seconds[function=ODD outcome=delivered] 0.004", "GAUGE halley_read_ahead_bytes[] 1.099511627776e+12",
		"GAUGE halley_lag_seconds[function=ODD range=0] +Inf", "GAUGE halley_lag_seconds[function=ODD range=1] NaN",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no series %s in\n%s", want, strings.Join(got, "\n"))
		}
	}
}
