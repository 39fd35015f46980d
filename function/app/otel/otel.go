// Package otel exports traces and metrics with OpenTelemetry over OTLP. Only apps that
// import it link its exporters, which bring gRPC (10 MB):
//
//	app.Options{Handlers: entries, Telemetry: otel.Export}.Main()
//
// The standard variables configure it, among them OTEL_EXPORTER_OTLP_ENDPOINT,
// OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_PROTOCOL (http/protobuf, the default, or
// grpc), OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER,
// OTEL_METRIC_EXPORT_INTERVAL, OTEL_TRACES_EXPORTER=none, OTEL_METRICS_EXPORTER=none and
// OTEL_SDK_DISABLED=true. See the [specification].
//
// Each handler call is a span, a child of none. It is linked to the spans that wrote its
// documents, if these carry their trace context in a first-level property traceparent
// (and tracestate). The handler's context holds the span. The metrics are those of
// /metrics.
//
// [specification]: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
package otel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"halley/function/app"
	"halley/handlers"
	"halley/trigger"
	"halley/trigger/cosmos"
)

var _ app.Telemetry = Export

// Export starts the export of traces and of the metrics of a process. It is the value of
// [app.Options.Telemetry]. It also sets the global tracer provider, so that the spans of
// clients in handlers join those of the calls.
func Export(ctx context.Context, metrics func() []byte) (app.TelemetryHooks, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return app.TelemetryHooks{}, nil
	}
	var hooks app.TelemetryHooks
	var flushes, stops []func(context.Context) error
	if os.Getenv("OTEL_TRACES_EXPORTER") != "none" {
		exporter, err := spanExporter(ctx)
		if err != nil {
			return hooks, fmt.Errorf("OpenTelemetry traces: %w", err)
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
		otel.SetTracerProvider(provider)
		hooks.Wrap = spans{provider.Tracer("halley")}.wrap
		flushes, stops = append(flushes, provider.ForceFlush), append(stops, provider.Shutdown)
	}
	if os.Getenv("OTEL_METRICS_EXPORTER") != "none" {
		exporter, err := metricExporter(ctx)
		if err != nil {
			return hooks, errors.Join(fmt.Errorf("OpenTelemetry metrics: %w", err), together(stops)(ctx))
		}
		reader := sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(gatherer(metrics)))))
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		flushes, stops = append(flushes, provider.ForceFlush), append(stops, provider.Shutdown)
	}
	hooks.Flush, hooks.Stop = together(flushes), together(stops)
	return hooks, nil
}

// gatherer reads the text of /metrics for OpenTelemetry's bridge.
func gatherer(metrics func() []byte) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(metrics()))
		return slices.Collect(maps.Values(families)), err
	})
}

func together(all []func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		var errs []error
		for _, do := range all {
			errs = append(errs, do(ctx))
		}
		return errors.Join(errs...)
	}
}

// isGRPC reports whether the variables choose gRPC for a signal. The exporters read all
// other variables themselves.
func isGRPC(signal string) (bool, error) {
	name := "OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL"
	switch protocol := cmp.Or(os.Getenv(name), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")); protocol {
	case "grpc":
		return true, nil
	case "", "http/protobuf":
		return false, nil
	default:
		return false, fmt.Errorf("%s or OTEL_EXPORTER_OTLP_PROTOCOL is %q: write grpc or http/protobuf", name, protocol)
	}
}

func spanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	grpc, err := isGRPC("TRACES")
	switch {
	case err != nil:
		return nil, err
	case grpc:
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

func metricExporter(ctx context.Context) (sdkmetric.Exporter, error) {
	grpc, err := isGRPC("METRICS")
	switch {
	case err != nil:
		return nil, err
	case grpc:
		return otlpmetricgrpc.New(ctx)
	}
	return otlpmetrichttp.New(ctx)
}

// spans makes the spans of handler calls.
type spans struct{ tracer trace.Tracer }

// mostLinks bounds the links of a span; the SDK drops further ones, see
// OTEL_SPAN_LINK_COUNT_LIMIT.
const mostLinks = 128

func (s spans) wrap(function string, next trigger.Handler) trigger.Handler {
	return func(ctx context.Context, b trigger.Batch) error {
		ctx, span := s.tracer.Start(ctx, "process "+function, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithLinks(linksOf(b.Changes)...), trace.WithAttributes(
				attribute.String("messaging.operation.type", "process"),
				attribute.Int("messaging.batch.message_count", len(b.Changes)),
				attribute.String("halley.function", b.Function), attribute.String("halley.range", b.Range.ID),
				attribute.Int64("halley.epoch", b.Epoch), attribute.Int("halley.attempt", b.Attempt),
			))
		defer span.End()
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
		err := next(handlers.WithTraceparent(ctx, carrier["traceparent"]), b)
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		return err
	}
}

// linksOf returns links to the spans that wrote the documents, each once.
func linksOf(changes []trigger.Change) (links []trace.Link) {
	seen := map[trace.SpanID]bool{}
	for i := range changes {
		written := writer(changes[i].Document)
		if !written.IsValid() || seen[written.SpanID()] {
			continue
		}
		seen[written.SpanID()] = true
		link := trace.Link{SpanContext: written}
		if state := written.TraceState().String(); state != "" { // the exporter leaves the state of a link out
			link.Attributes = []attribute.KeyValue{attribute.String("w3c.tracestate", state)}
		}
		if links = append(links, link); len(links) == mostLinks {
			break
		}
	}
	return links
}

// writer returns the trace context that a document carries.
func writer(document []byte) trace.SpanContext {
	carrier := propagation.MapCarrier{}
	for _, name := range []string{"traceparent", "tracestate"} {
		var value string
		if json.Unmarshal(cosmos.Property(document, name), &value) == nil {
			carrier[name] = value
		}
	}
	if carrier["traceparent"] == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}
