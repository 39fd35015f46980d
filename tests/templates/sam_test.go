package templates

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// checkSAM runs cfn-lint, and judges the function by rules for what cfn-lint accepts:
// any processor, runtime, time limit, age of events and schedule, and references to
// names that are not declared.
func checkSAM(t *testing.T, apps []string) map[string][]string {
	t.Helper()
	found := cfnLint(t, apps)
	rule := readAllowList(t, "sam.json").Types["AWS::Serverless::Function"]
	for _, app := range apps {
		template := readYAML(t, filepath.Join(app, "template.yaml"))[0]
		function := at(template, "Resources", "App")
		if at(function, "Type") != "AWS::Serverless::Function" {
			found[app] = append(found[app], "App is not a function")
		}
		found[app] = append(found[app], judge(at(function, "Properties"), rule, "App")...)
		found[app] = append(found[app], undeclared(template)...)
		if zip := "dist/" + executable(t, app) + "-lambda.zip"; at(function, "Properties", "CodeUri") != zip {
			found[app] = append(found[app], "package writes "+zip)
		}
		variables, _ := at(function, "Properties", "Environment", "Variables").(map[string]any)
		for name := range variables {
			if name != "CosmosDB" && !appSettingName.MatchString(name) {
				found[app] = append(found[app], name+" is not a known setting")
			}
		}
	}
	return found
}

var reference = regexp.MustCompile(`!Ref (\w+)|\$\{(\w+)\}`)

// undeclared reports references to neither a parameter nor a resource.
func undeclared(template any) (found []string) {
	for _, match := range reference.FindAllStringSubmatch(shown(template), -1) {
		name := match[1] + match[2]
		if at(template, "Parameters", name) == nil && at(template, "Resources", name) == nil {
			found = append(found, name+" is not declared")
		}
	}
	return found
}

// cfnLint checks all templates with one program, which takes a while to start.
func cfnLint(t *testing.T, apps []string) map[string][]string {
	t.Helper()
	command := []string{"--format", "parseable"}
	for _, app := range apps {
		command = append(command, filepath.Join(app, "template.yaml"))
	}
	output, err := exec.Command(filepath.Join(tool(t, "TEMPLATES_VENV"), "bin", "cfn-lint"), command...).Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || len(output) == 0) {
		t.Fatalf("cfn-lint: %v\n%s", err, exit.Stderr)
	}
	found := map[string][]string{}
	for line := range strings.Lines(string(output)) {
		path, text, _ := strings.Cut(line, ":")
		app := filepath.Dir(path)
		found[app] = append(found[app], fmt.Sprintf("template.yaml:%s", strings.TrimSpace(text)))
	}
	return found
}

func TestSAMTemplateHasNoFindings(t *testing.T) {
	passes(t, "lambda", checkSAM)
}

func TestSAMFaultsAreFound(t *testing.T) {
	const file = "template.yaml"
	finds(t, "lambda", checkSAM, []fault{
		// cfn-lint's.
		{file, "Transform: AWS::Serverless-2016-10-31\n", "", "E3038"},
		{file, "      MemorySize: 512", "      MemorySizes: 512", "MemorySizes"},
		{file, "      MemorySize: 512", "      MemorySize: 64", "E3034"},
		{file, "of the function\n    Value: !Ref App", "of the function\n    Values: !Ref App", "E6"},

		// The project's.
		{file, "- arm64", "- arm46", `Architectures[0] is "arm46"`},
		{file, "Runtime: provided.al2023", "Runtime: provided.al2032", `Runtime is "provided.al2032"`},
		{file, "Timeout: 300", "Timeout: 1000", "Timeout is 1000"},
		{file, "MaximumEventAgeInSeconds: 60", "MaximumEventAgeInSeconds: 6", "MaximumEventAgeInSeconds is 6"},
		{file, "rate(1 minute)", "rate(1 minutes)", `ScheduleExpression is "rate(1 minutes)"`},
		{file, "Type: ScheduleV2", "Type: Schedules", `EachMinute.Type is "Schedules"`},
		{file, "dist/shop-lambda.zip", "dist/shop.zip", "package writes dist/shop-lambda.zip"},
		{file, "          HALLEY_START_FROM:", "          HALEY_START_FROM:", "HALEY_START_FROM is not a known setting"},
		{file, "!Ref DatabaseName", "!Ref Databases", "Databases is not declared"},
		{file, "${ConnectionSecret}", "${Secret}", "Secret is not declared"},
		{file, "LogGroup: !Ref Logs", "LogGroup: !Ref Log", "Log is not declared"},
		{file, "MetricName: Errors", "MetricsName: Errors", "MetricsName"},
		{file, "RetentionInDays: 30", "RetentionInDays: 31", "E3030"},
		{file, "Handler: bootstrap", "Handler: main", `Handler is "main"`},
	})
}
