package templates

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unequal compares objects of the job and of the app, except for keys in which they may
// differ.
func unequal(what string, job, app any, except ...string) (found []string) {
	keys := map[string]any{}
	maps.Copy(keys, objectOf(job))
	maps.Copy(keys, objectOf(app))
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if of, with := shown(at(job, key)), shown(at(app, key)); of != with && !slices.Contains(except, key) {
			found = append(found, fmt.Sprintf("%s %s of the job is %s, want the app's %s", what, key, of, with))
		}
	}
	return found
}

func objectOf(value any) map[string]any {
	result, _ := value.(map[string]any)
	return result
}

// initCommandFindings judges the command that creates the leases. It replaces the entry
// point of the image.
func initCommandFindings(container any, executable string) []string {
	if command, want := shown(at(container, "command")), shown([]string{"/app/" + executable, "leases", "init"}); command != want {
		return []string{fmt.Sprintf("the command is %s, want %s", command, want)}
	}
	return nil
}

// podJobFindings compares the pod of the Job that creates the leases with the app's.
func podJobFindings(job, deployment any, executable string) (found []string) {
	if job == nil {
		return []string{"no Job creates the leases"}
	}
	labels := objectOf(at(job, "spec", "template", "metadata", "labels"))
	if use := labels["azure.workload.identity/use"]; use != "true" {
		found = append(found, fmt.Sprintf("workload identity of the Job: %v is not \"true\"", shown(use)))
	}
	if label := at(deployment, "spec", "selector", "matchLabels", "app"); labels["app"] == label {
		found = append(found, fmt.Sprintf("the Deployment selects the pod of the Job by the label app: %v", label))
	}
	if at(job, "spec", "backoffLimit") == nil || at(job, "spec", "ttlSecondsAfterFinished") == nil {
		found = append(found, "backoffLimit or ttlSecondsAfterFinished of the Job is missing")
	}
	pod, appPod := at(job, "spec", "template", "spec"), at(deployment, "spec", "template", "spec")
	if policy := at(pod, "restartPolicy"); policy != "OnFailure" {
		found = append(found, fmt.Sprintf("restartPolicy of the Job is %v, want OnFailure", policy))
	}
	found = append(found, unequal("pod:", pod, appPod, "restartPolicy", "terminationGracePeriodSeconds", "containers")...)
	container := at(pod, "containers", 0)
	found = append(found, unequal("container:", container, at(appPod, "containers", 0),
		"name", "command", "ports", "livenessProbe", "readinessProbe")...)
	return append(found, initCommandFindings(container, executable)...)
}

// containerJobFindings compares the job that creates the leases with the app of the file.
func containerJobFindings(f *bicepFile, d declaration, properties map[string]any) (found []string) {
	i := slices.IndexFunc(f.Declarations, func(d declaration) bool { return strings.HasPrefix(d.Type, "Microsoft.App/containerApps@") })
	if i < 0 {
		return []string{"there is no app"}
	}
	app := f.resolve(f.Declarations[i].body())
	name, _ := at(app, "name").(string)
	if trigger := at(properties, "configuration", "triggerType"); trigger != "Manual" {
		found = append(found, fmt.Sprintf("triggerType is %v, want Manual", shown(trigger)))
	}
	found = append(found, unequal("resource:", f.resolve(d.body()), app, "name", "properties")...)
	found = append(found, unequal("properties:", properties, at(app, "properties"), "configuration", "template")...)
	found = append(found, unequal("configuration:", map[string]any{"registries": at(properties, "configuration", "registries")},
		at(app, "properties", "configuration"), "activeRevisionsMode")...)
	container := at(properties, "template", "containers", 0)
	found = append(found, unequal("container:", container, at(app, "properties", "template", "containers", 0), "name", "command", "probes")...)
	return append(found, initCommandFindings(container, name)...)
}

// checkSchedule judges the scale rules that the README gives to containerapp.bicep.
func checkSchedule(t *testing.T, app string) (found []string) {
	t.Helper()
	var rules []any
	if err := json.Unmarshal(readFile(t, filepath.Join(app, "infra", "schedule.json")), &rules); err != nil {
		return []string{err.Error()}
	}
	template := at(readAllowList(t, "arm.json").Types["Microsoft.App/containerApps@2025-01-01"], "properties!", "template")
	found = judge(rules, at(template, "scale", "rules"), "schedule.json")
	for i := range rules {
		found = append(found, triggerFindings(t, "cron_scaler.go", objectOf(at(rules, i, "custom", "metadata")))...)
	}
	return found
}

func TestScheduleHasNoFindings(t *testing.T) {
	passes(t, "container", each(checkSchedule))
}

func TestScheduleFaultsAreFound(t *testing.T) {
	const file = "infra/schedule.json"
	finds(t, "container", each(checkSchedule), []fault{
		{file, `"type": "cron"`, `"type": "azure-cosmosdb"`, `type is "azure-cosmosdb", want one of`},
		{file, `"custom"`, `"costum"`, "has costum, which is not allowed"},
		{file, `"timezone"`, `"timeZone"`, "the trigger has no timezone"},
		{file, `"desiredReplicas": "1"`, `"desiredReplicas": 1`, "desiredReplicas=1, which KEDA does not accept"},
		{file, `"hourly",`, `"hourly"`, "invalid character"},
	})
}

func TestInitJobFaultsAreFound(t *testing.T) {
	const initFile, appFile = "kubernetes/init.yaml", "kubernetes/app.yaml"
	finds(t, "container", checkManifests, []fault{
		// kubeconform's.
		{initFile, "apiVersion: batch/v1", "apiVersion: batch/v1beta1", "could not find schema for Job"},
		{initFile, "backoffLimit: 6", "backOffLimit: 6", "'backOffLimit' not allowed"},
		{initFile, "ttlSecondsAfterFinished: 600", "ttlSecondsAfterFinished: 10m", "got string, want null or integer"},
		{appFile, `HALLEY_METRICS_ADDRESS: ":9464"`, "HALLEY_METRICS_ADDRESS: 9464", "at '/data/HALLEY_METRICS_ADDRESS'"},

		// The project's.
		{initFile, `"leases", "init"]`, `"lease", "init"]`, `the command is ["/app/shop","lease","init"]`},
		{initFile, `          command: ["/app/shop", "leases", "init"]` + "\n", "", "the command is null"},
		{initFile, `command: ["/app/shop"`, `command: ["/shop"`, `the command is ["/shop"`},
		{initFile, "          command:", "          args:", "container: args of the job"},
		{initFile, "          envFrom:\n            - configMapRef:\n                name: shop\n", "", "container: envFrom of the job is null"},
		{initFile, "            - configMapRef:\n                name: shop\n", "            - configMapRef:\n                name: app\n", "container: envFrom of the job"},
		{initFile, "          envFrom:\n", "          env:\n            - name: HALLEY_START_FROM\n              value: now\n          envFrom:\n", "container: env of the job"},
		{appFile, "            - configMapRef:\n                name: shop\n", "            - configMapRef:\n                name: app\n", `settings: "app" is not "shop"`},
		{initFile, "serviceAccountName: shop", "serviceAccountName: default", "pod: serviceAccountName of the job"},
		{initFile, "      serviceAccountName: shop\n", "", "pod: serviceAccountName of the job is null"},
		{initFile, `azure.workload.identity/use: "true"`, `azure.workload.identity/use: "false"`, "workload identity of the Job"},
		{initFile, "      labels:\n", "      labels:\n        app: shop\n", "the Deployment selects the pod of the Job"},
		{initFile, "azurecr.io/shop:1", "azurecr.io/shop:2", "container: image of the job"},
		{initFile, "runAsNonRoot: true", "runAsNonRoot: false", "pod: securityContext of the job"},
		{initFile, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "container: securityContext of the job"},
		{initFile, "memory: 512Mi", "memory: 16Mi", "container: resources of the job"},
		{initFile, "restartPolicy: OnFailure", "restartPolicy: Always", "restartPolicy of the Job is Always"},
		{initFile, "  ttlSecondsAfterFinished: 600\n", "", "ttlSecondsAfterFinished of the Job is missing"},
		{initFile, "kind: Job", "kind: CronJob", "no Job creates the leases"},
	})
}

func TestContainerJobFaultsAreFound(t *testing.T) {
	const file = "infra/containerapp.bicep"
	const identity = "  identity: {\n    type: 'UserAssigned'\n    userAssignedIdentities: {\n      '${identity.id}': {}\n    }\n  }\n"
	const job, container = "  name: 'shop-init'\n  location: location\n", "          name: 'init'\n          image: '${registry.properties.loginServer}/${image}'\n"
	const command = "          command: [\n            '/app/shop'\n            'leases'\n            'init'\n          ]\n"
	const resources = "          resources: {\n            cpu: json('0.25')\n            memory: '0.5Gi'\n          }\n"
	finds(t, "container", checkBicep, []fault{
		{file, "Microsoft.App/jobs@2025-01-01", "Microsoft.App/job@2025-01-01", "Microsoft.App/job@2025-01-01 is not a known type"},
		{file, "      replicaTimeout: 300\n", "", "configuration has no replicaTimeout"},
		{file, "manualTriggerConfig: {", "manualTrigger: {", "has manualTrigger"},
		{file, "triggerType: 'Manual'", "triggerType: 'Event'", `triggerType is "Event", want Manual`},
		{file, "            'init'\n", "", `the command is ["/app/shop","leases"]`},
		{file, command, strings.Replace(command, "shop", "halley", 1), `the command is ["/app/halley"`},
		{file, job + identity, job, "resource: identity of the job is null"},
		{file, job + identity, job + strings.Replace(identity, "identity.id", "registry.id", 1), "resource: identity of the job"},
		{file, container, strings.Replace(container, "${image}", "${image}-init", 1), "container: image of the job"},
		{file, command + resources + "          env: settings\n", command + resources, "container: env of the job is null"},
		{file, command + resources + "          env: settings\n", command + resources + "          env: []\n", "container: env of the job is []"},
		{file, command + resources, command + strings.Replace(resources, "0.5Gi", "1Gi", 1), "container: resources of the job"},
		{file, "      replicaRetryLimit: 6\n      registries: [\n        {\n          server: registry.properties.loginServer\n", "      replicaRetryLimit: 6\n      registries: [\n        {\n          server: 'docker.io'\n", "configuration: registries of the job"},
	})
}
