package templates

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Windows of alert rules from the shortest to the longest.
// https://learn.microsoft.com/azure/azure-monitor/alerts/alerts-create-log-alert-rule
var alertWindows = []string{"PT1M", "PT5M", "PT10M", "PT15M", "PT30M", "PT45M", "PT1H", "PT2H", "PT3H", "PT4H", "PT5H", "PT6H", "P1D", "P2D"}

// alertFindings judges a rule by what its schema leaves open: windows without gaps,
// failing periods that can be reached, and queries of what the app logs.
func alertFindings(f *bicepFile, properties map[string]any) (found []string) {
	if every, window := at(properties, "evaluationFrequency"), at(properties, "windowSize"); place(every) > place(window) {
		found = append(found, fmt.Sprintf("the rule looks at %v every %v, which leaves gaps", window, every))
	}
	if at(properties, "autoMitigate") == true && at(properties, "muteActionsDuration") != nil {
		found = append(found, "muteActionsDuration needs autoMitigate: false")
	}
	criteria, _ := at(properties, "criteria", "allOf").([]any)
	if len(criteria) == 0 {
		found = append(found, "the rule has no criteria")
	}
	for _, criterion := range criteria {
		found = append(found, criterionFindings(f, properties, criterion)...)
	}
	return found
}

func place(window any) int {
	text, _ := window.(string)
	return slices.Index(alertWindows, text)
}

func criterionFindings(f *bicepFile, properties map[string]any, criterion any) (found []string) {
	periods, _ := at(criterion, "failingPeriods", "numberOfEvaluationPeriods").(float64)
	if failing, _ := at(criterion, "failingPeriods", "minFailingPeriodsToAlert").(float64); failing > periods {
		found = append(found, fmt.Sprintf("%v of %v periods cannot fail", failing, periods))
	}
	query, _ := at(criterion, "query").(string)
	column, _ := at(criterion, "metricMeasureColumn").(string)
	switch counts := at(criterion, "timeAggregation") == "Count"; {
	case counts && column != "":
		found = append(found, "Count has no metricMeasureColumn")
	case !counts && column == "":
		found = append(found, "metricMeasureColumn is missing: only Count has none")
	case !counts && !regexp.MustCompile(`\b`+regexp.QuoteMeta(column)+` = `).MatchString(query):
		found = append(found, fmt.Sprintf("the query has no column %s", column))
	}
	return append(found, queryFindings(f, properties, query)...)
}

// Texts in a query: the message of a line of the log, and a metric.
var (
	lineMessage = regexp.MustCompile(`line\.message == "([^"]+)"`)
	metricName  = regexp.MustCompile(`"(halley_\w+)"`)
)

// tables are those in which the component and the workspace of Application Insights have
// the lines of the log. https://learn.microsoft.com/azure/azure-monitor/app/data-model-complete
var tables = map[string]string{"Microsoft.Insights/components": "traces", "Microsoft.OperationalInsights/workspaces": "AppTraces"}

// queryFindings compares a query with the scope of its rule, and with the source of what
// it looks for.
func queryFindings(f *bicepFile, properties map[string]any, query string) (found []string) {
	scope, _ := expression(at(properties, "scopes", 0))
	resource, _ := f.find(strings.TrimSuffix(scope, ".id"))
	kind, _, _ := strings.Cut(resource.Type, "@")
	if table, _, _ := strings.Cut(query, " "); tables[kind] == "" || table != tables[kind] {
		found = append(found, fmt.Sprintf("the scope %s has no table %s", scope, table))
	}
	message := lineMessage.FindStringSubmatch(query)
	switch {
	case message == nil:
		found = append(found, "the query selects no line of the log")
	case !sourceHas(`\.(Info|Error)\("`+regexp.QuoteMeta(message[1])+`"`, "function/app/internal/hosting/metricslog.go", "trigger/deadletterwrite.go"):
		found = append(found, fmt.Sprintf("no line of the log has the message %q", message[1]))
	}
	metrics := metricName.FindAllStringSubmatch(query, -1)
	if len(metrics) == 0 && message != nil && message[1] == "metrics" {
		found = append(found, "the query reads no metric")
	}
	for _, metric := range metrics {
		if !sourceHas(`= +"`+metric[1]+`"`, "function/app/internal/metrics/names.go") {
			found = append(found, metric[1]+" is not a metric")
		}
	}
	return found
}

// sourceHas reports whether one of Halley's files matches a pattern.
func sourceHas(pattern string, paths ...string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		source, err := os.ReadFile(filepath.Join("..", "..", path))
		return err == nil && regexp.MustCompile(pattern).Match(source)
	})
}
