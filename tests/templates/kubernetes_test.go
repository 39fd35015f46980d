package templates

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	kubeconform = "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0"
	keda        = "github.com/kedacore/keda/v2@v2.21.0"
	kubernetes  = "v1.37.0-local-strict" // of the Python package kubernetes-validate
)

// checkManifests runs kubeconform on the manifests of apps, and judges them by rules of
// the project.
func checkManifests(t *testing.T, apps []string) map[string][]string {
	t.Helper()
	schemas := kubernetesSchemas(t)
	found := map[string][]string{}
	command := []string{"run", kubeconform, "-strict", "-output", "json", "-schema-location", schemas + "/{{.ResourceKind}}{{.KindSuffix}}.json"}
	for _, app := range apps {
		command = append(command, filepath.Join(app, "kubernetes"))
		found[app] = manifestFindings(t, app)
	}
	output, _ := exec.Command("go", command...).Output() // it fails if there are findings
	var report struct {
		Resources []struct{ Filename, Kind, Msg string }
	}
	if err := json.Unmarshal(output, &report); err != nil {
		t.Fatalf("kubeconform: %v\n%s", err, output)
	}
	for _, r := range report.Resources {
		app := filepath.Dir(filepath.Dir(r.Filename))
		found[app] = append(found[app], fmt.Sprintf("%s: %s: %s", filepath.Base(r.Filename), r.Kind, r.Msg))
	}
	return found
}

// kubernetesSchemas writes the schemas of the kinds that the templates use: those of
// Kubernetes from a Python package, and KEDA's from its definitions of resources.
func kubernetesSchemas(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	archive, err := zip.OpenReader(tool(t, "TEMPLATES_KUBERNETES"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	for _, name := range []string{"_definitions.json", "configmap-v1.json", "deployment-apps-v1.json", "job-batch-v1.json", "poddisruptionbudget-policy-v1.json", "serviceaccount-v1.json"} {
		file, err := archive.Open(path.Join("kubernetes_validate/kubernetes-json-schema", kubernetes, name))
		if err != nil {
			t.Fatal(err)
		}
		var schema map[string]any
		if err := json.NewDecoder(file).Decode(&schema); err != nil {
			t.Fatal(err)
		}
		delete(schema, "$id") // an address on the internet, to which references are relative
		writeFile(t, filepath.Join(dir, name), strings.ReplaceAll(shown(schema), `"/api/_definitions.json#`, `"_definitions.json#`))
	}
	for _, kind := range []string{"scaledobject", "triggerauthentication"} {
		definition := readYAML(t, filepath.Join(kedaSource(t), "config/crd/bases/keda.sh_"+kind+"s.yaml"))[0]
		schema := at(definition, "spec", "versions", 0, "schema", "openAPIV3Schema")
		closeObjects(schema)
		// Kubernetes itself defines these two.
		properties := at(schema, "properties").(map[string]any)
		properties["metadata"] = map[string]any{"$ref": "_definitions.json#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
		writeFile(t, filepath.Join(dir, kind+"-keda-v1alpha1.json"), shown(schema))
	}
	return dir
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// closeObjects makes a schema refuse properties that it does not know, as the server of
// Kubernetes does.
func closeObjects(schema any) {
	switch schema := schema.(type) {
	case []any:
		for _, below := range schema {
			closeObjects(below)
		}
	case map[string]any:
		for _, below := range schema {
			closeObjects(below)
		}
		if _, ok := schema["properties"].(map[string]any); ok && schema["additionalProperties"] == nil && schema["type"] == "object" {
			schema["additionalProperties"] = false
		}
	}
}

// kedaSource is the directory of KEDA's module.
var kedaSource = func() func(*testing.T) string {
	download := sync.OnceValues(func() ([]byte, error) { return exec.Command("go", "mod", "download", "-json", keda).Output() })
	return func(t *testing.T) string {
		t.Helper()
		output, err := download()
		if err != nil {
			t.Fatalf("%s: %v\n%s", keda, err, output)
		}
		var module struct{ Dir string }
		if err := json.Unmarshal(output, &module); err != nil {
			t.Fatal(err)
		}
		return module.Dir
	}
}()

// scalerParameter is a parameter of a trigger, as KEDA's source declares it.
var scalerParameter = regexp.MustCompile("`keda:\"name=(\\w+),\\s+order=([\\w;]+)(.*)\"`")

// triggerFindings judges the metadata of a trigger by the source of its scaler, a file.
func triggerFindings(t *testing.T, scaler string, metadata map[string]any) (found []string) {
	t.Helper()
	source := string(readFile(t, filepath.Join(kedaSource(t), "pkg/scalers", scaler)))
	known := map[string]bool{}
	for _, match := range scalerParameter.FindAllStringSubmatch(source, -1) {
		name, order, rest := match[1], match[2], match[3]
		known[name] = strings.Contains(order, "triggerMetadata")
		known[name+"FromEnv"] = strings.Contains(order, "resolvedEnv")
		if !strings.Contains(rest, "optional") && !strings.Contains(rest, "default") && metadata[name] == nil {
			found = append(found, "the trigger has no "+name)
		}
	}
	if len(known) == 0 {
		t.Fatalf("%s has no parameters", scaler)
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		if _, isString := metadata[name].(string); !known[name] || !isString {
			found = append(found, fmt.Sprintf("the trigger has %s=%v, which KEDA does not accept", name, shown(metadata[name])))
		}
	}
	return found
}

// manifestFindings judges the manifests by rules that no schema has: settings, names
// that several resources must share, and the time to stop.
func manifestFindings(t *testing.T, app string) (found []string) {
	t.Helper()
	resources := map[string]any{}
	for _, file := range files(t, app, "kubernetes/*.yaml") {
		for _, resource := range readYAML(t, file) {
			kind, _ := at(resource, "kind").(string)
			resources[kind] = resource
		}
	}
	same := func(what string, a, b any) {
		if a == nil || a != b {
			found = append(found, fmt.Sprintf("%s: %v is not %v", what, shown(a), shown(b)))
		}
	}
	deployment, scaled := resources["Deployment"], resources["ScaledObject"]
	pod := at(deployment, "spec", "template", "spec")
	name := at(deployment, "metadata", "name")
	labels := at(deployment, "spec", "template", "metadata", "labels")
	same("service account", at(pod, "serviceAccountName"), at(resources["ServiceAccount"], "metadata", "name"))
	same("selector", at(deployment, "spec", "selector", "matchLabels", "app"), at(labels, "app"))
	same("disruption budget", at(resources["PodDisruptionBudget"], "spec", "selector", "matchLabels", "app"), at(labels, "app"))
	if image, _ := at(pod, "containers", 0, "image").(string); strings.HasSuffix(image, ":latest") || path.Base(image) == strings.Split(path.Base(image), ":")[0] {
		found = append(found, "the image "+image+" names no version")
	}
	same("workload identity", at(labels, "azure.workload.identity/use"), "true")
	same("scaled deployment", at(scaled, "spec", "scaleTargetRef", "name"), name)
	same("authentication", at(scaled, "spec", "triggers", 0, "authenticationRef", "name"), at(resources["TriggerAuthentication"], "metadata", "name"))
	same("trigger", at(scaled, "spec", "triggers", 0, "type"), "azure-cosmosdb")
	same("second trigger", at(scaled, "spec", "triggers", 1, "type"), "prometheus")
	same("formula", at(scaled, "spec", "advanced", "scalingModifiers", "formula"), fmt.Sprintf("%[1]v < 0 ? %[2]v : min(%[2]v, %[1]v)",
		at(scaled, "spec", "triggers", 1, "name"), at(scaled, "spec", "triggers", 0, "name")))
	same("target", at(scaled, "spec", "advanced", "scalingModifiers", "target"), at(scaled, "spec", "triggers", 0, "metadata", "changeFeedLagThreshold"))

	env := map[string]string{"HALLEY_STOP_GRACE": "10s", "HALLEY_LEASE_CONTAINER_NAME": "leases"}
	settings := resources["ConfigMap"]
	same("settings", at(pod, "containers", 0, "envFrom", 0, "configMapRef", "name"), at(settings, "metadata", "name"))
	for name, value := range objectOf(at(settings, "data")) {
		env[name], _ = value.(string)
		if !appSettingName.MatchString(name) || env[name] == "" {
			found = append(found, fmt.Sprintf("%s=%q is not a known setting with a value", name, env[name]))
		}
	}
	metadata, _ := at(scaled, "spec", "triggers", 0, "metadata").(map[string]any)
	for parameter, setting := range map[string]string{
		"endpoint": "CosmosDB__accountEndpoint", "databaseId": "HALLEY_DATABASE_NAME", "leaseDatabaseId": "HALLEY_DATABASE_NAME",
		"containerId": "HALLEY_CONTAINER_NAME", "leaseContainerId": "HALLEY_LEASE_CONTAINER_NAME",
	} {
		same(parameter, metadata[parameter], env[setting])
	}
	same("processorName", metadata["processorName"], "orders") // the lease prefix is the handler's name
	seconds, _ := at(pod, "terminationGracePeriodSeconds").(float64)
	found = append(found, graceFindings(seconds, env["HALLEY_STOP_GRACE"])...)
	found = append(found, podJobFindings(resources["Job"], deployment, executable(t, app))...)
	pending, _ := at(scaled, "spec", "triggers", 1, "metadata").(map[string]any)
	same("query", pending["query"], `sum(halley_pending_changes{function="orders"}) or vector(-1)`)
	found = append(found, triggerFindings(t, "prometheus_scaler.go", pending)...)
	return append(found, triggerFindings(t, "azure_cosmosdb_scaler.go", metadata)...)
}

func TestManifestsHaveNoFindings(t *testing.T) {
	passes(t, "container", checkManifests)
}

func TestManifestFaultsAreFound(t *testing.T) {
	const appFile, kedaFile = "kubernetes/app.yaml", "kubernetes/keda.yaml"
	finds(t, "container", checkManifests, []fault{
		// kubeconform's.
		{appFile, "      serviceAccountName:", "      serviceAccount-Name:", "'serviceAccount-Name' not allowed"},
		{appFile, "PeriodSeconds: 40", "PeriodSeconds: forty", "got string, want null or integer"},
		{appFile, "apiVersion: apps/v1", "apiVersion: apps/v2", "could not find schema for Deployment"},
		{appFile, "  selector:\n    matchLabels:\n      app: shop\n", "", "missing property 'selector'"},
		{appFile, "readOnlyRootFilesystem", "readOnlyRootFileSystem", "'readOnlyRootFileSystem' not allowed"},
		{appFile, "              cpu: 100m", "              cpu: [100m]", "at '/spec/template/spec/containers/0/resources"},
		{kedaFile, "  maxReplicaCount:", "  maxReplicas:", "'maxReplicas' not allowed"},
		{kedaFile, "provider: azure-workload", "provider: azure", "azure-workload"},
		{kedaFile, "      metadata:\n", "      meta:\n", "missing property 'metadata'"},
		{kedaFile, "  scaleTargetRef:\n    name: shop\n", "", "missing property 'scaleTargetRef'"},

		// The project's.
		{kedaFile, "      name: pending\n", "      name: waiting\n", "formula"},
		{kedaFile, "min(lag, pending)", "max(lag, pending)", "formula"},
		{kedaFile, `      target: "100"`, `      target: "10"`, "target"},
		{kedaFile, "halley_pending_changes", "halley_lag_transactions", "query"},
		{kedaFile, "        serverAddress:", "        server:", "the trigger has no serverAddress"},
		{kedaFile, "processorName:", "processorsName:", "the trigger has no processorName"},
		{kedaFile, "        changeFeedLagThreshold:", "        lagThreshold:", "lagThreshold"},
		{kedaFile, `changeFeedLagThreshold: "100"`, "changeFeedLagThreshold: 100", "changeFeedLagThreshold=100, which KEDA does not accept"},
		{kedaFile, "leaseContainerId: leases", "leaseContainerId: lease", `leaseContainerId: "lease" is not "leases"`},
		{kedaFile, "processorName: orders", "processorName: shop", `processorName: "shop" is not "orders"`},
		{kedaFile, "  scaleTargetRef:\n    name: shop", "  scaleTargetRef:\n    name: app", "scaled deployment"},
		{kedaFile, "      authenticationRef:\n        name: shop", "      authenticationRef:\n        name: app", "authentication"},
		{appFile, "azurecr.io/shop:1", "azurecr.io/shop:latest", "names no version"},
		{appFile, "azurecr.io/shop:1", "azurecr.io/shop", "names no version"},
		{appFile, "  maxUnavailable: 1\n  selector:\n    matchLabels:\n      app: shop", "  maxUnavailable: 1\n  selector:\n    matchLabels:\n      app: app", "disruption budget"},
		{appFile, "  maxUnavailable: 1", "  maxUnavailables: 1", "'maxUnavailables' not allowed"},
		{appFile, "serviceAccountName: shop", "serviceAccountName: app", "service account"},
		{appFile, `azure.workload.identity/use: "true"`, `azure.workload.identity/use: "yes"`, "workload identity"},
		{appFile, "terminationGracePeriodSeconds: 40", "terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds is 30"},
		{appFile, "  HALLEY_START_FROM:", "  HALEY_START_FROM:", "HALEY_START_FROM"},
	})
}
