package emulator

import (
	"fmt"
	"strings"
)

// queryTimes are the durations that clients look for in the metrics of a query
// (QueryMetricsConstants of azure-sdk-for-java). None is measured here.
var queryTimes = []string{
	"totalExecutionTimeInMs",
	"queryCompileTimeInMs",
	"queryLogicalPlanBuildTimeInMs",
	"queryPhysicalPlanBuildTimeInMs",
	"queryOptimizationTimeInMs",
	"indexLookupTimeInMs",
	"documentLoadTimeInMs",
	"VMExecutionTimeInMs",
	"writeOutputTimeInMs",
	"systemFunctionExecuteTimeInMs",
	"userFunctionExecuteTimeInMs",
}

// metrics returns the cost of a page. Java fails if a count, a size or the ratio is
// missing (QueryMetrics.createFromDelimitedStringAndClientSideMetrics).
func (s *scan) metrics(found results) string {
	var b strings.Builder
	for _, name := range queryTimes {
		b.WriteString(name + "=0.00;")
	}
	fmt.Fprintf(&b, "retrievedDocumentCount=%d;retrievedDocumentSize=%d;", len(s.read), s.bytes)
	fmt.Fprintf(&b, "outputDocumentCount=%d;outputDocumentSize=%d;", len(found.values), found.size)
	fmt.Fprintf(&b, "indexUtilizationRatio=%.2f", min(1, float64(len(found.values))/float64(max(1, len(s.read)))))
	return b.String()
}
