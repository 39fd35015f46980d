package otel

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	metricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"halley/handlers"
	"halley/trigger"
)

// collector is an OTLP receiver over HTTP. mu guards the fields below it.
type collector struct {
	t *testing.T

	mu      sync.Mutex
	spans   []*spanpb.Span
	metrics map[string]bool // by name
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
					c.metrics[m.Name] = true
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
	c := &collector{t: t, metrics: map[string]bool{}}
	server := httptest.NewServer(c)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "halley_test"}, func() float64 { return 1 }))
	hooks, err := Export(t.Context(), registry)
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
	if len(c.spans) != 2 || !c.metrics["halley_test"] {
		t.Fatalf("%d spans, metrics %v", len(c.spans), c.metrics)
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
			hooks, err := Export(t.Context(), prometheus.NewRegistry())
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
	if _, err := Export(t.Context(), prometheus.NewRegistry()); err == nil || !strings.Contains(err.Error(), "write grpc or http/protobuf") {
		t.Errorf("error %v", err)
	}
}
