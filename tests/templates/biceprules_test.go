package templates

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// resourceFindings judges a resource by rules that its schema does not have.
func resourceFindings(f *bicepFile, d declaration, properties map[string]any) []string {
	kind, _, _ := strings.Cut(d.Type, "@")
	switch kind {
	case "Microsoft.Web/sites":
		return siteFindings(properties)
	case "Microsoft.Web/sites/config":
		return appSettingsFindings(f, d, properties)
	case "Microsoft.Authorization/roleAssignments":
		return roleFindings(f, properties)
	case "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers":
		return containerFindings(properties)
	case "Microsoft.DocumentDB/databaseAccounts/sqlRoleDefinitions":
		return scopeFindings(properties["assignableScopes"])
	case "Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments":
		return append(scopeFindings(properties["scope"]), assignmentFindings(f, properties)...)
	case "Microsoft.Insights/scheduledQueryRules":
		return alertFindings(f, properties)
	case "Microsoft.App/containerApps":
		return containerAppFindings(properties)
	case "Microsoft.App/jobs":
		return containerJobFindings(f, d, properties)
	}
	return nil
}

// at returns the value at a path of keys and indexes, nil if there is none.
func at(value any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[step]
		case int:
			array, _ := value.([]any)
			if step >= len(array) {
				return nil
			}
			value = array[step]
		}
	}
	return value
}

// alwaysReadyName is a group of functions, or a function, that scales on its own.
// https://learn.microsoft.com/azure/azure-functions/flex-consumption-plan#per-function-scaling
var alwaysReadyName = regexp.MustCompile(`"name":"(http|blob|durable|function:[^"]+)"`)

func siteFindings(properties map[string]any) (found []string) {
	flex := properties["functionAppConfig"]
	if flex == nil {
		return nil
	}
	if at(flex, "runtime", "name") != "custom" {
		found = append(found, "the runtime is not custom")
	}
	storage := at(flex, "deployment", "storage", "authentication")
	if at(storage, "type") == "UserAssignedIdentity" && at(storage, "userAssignedIdentityResourceId") == nil {
		found = append(found, "UserAssignedIdentity needs userAssignedIdentityResourceId")
	}
	if ready := at(flex, "scaleAndConcurrency", "alwaysReady"); ready != nil && !alwaysReadyName.MatchString(shown(ready)) {
		found = append(found, "alwaysReady names no function")
	}
	return found
}

// platformSettings are settings that Azure Functions reads.
// https://learn.microsoft.com/azure/azure-functions/functions-app-settings
var platformSettings = []string{
	"APPLICATIONINSIGHTS_AUTHENTICATION_STRING", "APPLICATIONINSIGHTS_CONNECTION_STRING",
	"FUNCTIONS_EXTENSION_VERSION", "FUNCTIONS_WORKER_RUNTIME",
	"WEBSITE_CONTENTAZUREFILECONNECTIONSTRING", "WEBSITE_CONTENTSHARE", "WEBSITE_RUN_FROM_PACKAGE",
}

// appSettingName is a setting of Halley, or of a connection by identity.
var appSettingName = regexp.MustCompile(`^(HALLEY_[A-Z_]+|CosmosDB__(accountEndpoint|credential|clientId)|AzureWebJobsStorage__(accountName|blobServiceUri|queueServiceUri|credential|clientId))$`)

// refusedByFlex are settings that Flex Consumption refuses.
// https://learn.microsoft.com/azure/azure-functions/functions-app-settings#flex-consumption-plan-deprecations
var refusedByFlex = []string{
	"ENABLE_ORYX_BUILD", "FUNCTIONS_EXTENSION_VERSION", "FUNCTIONS_WORKER_RUNTIME", "SCM_DO_BUILD_DURING_DEPLOYMENT", "TZ",
	"WEBSITE_CONTENTAZUREFILECONNECTIONSTRING", "WEBSITE_CONTENTSHARE", "WEBSITE_RUN_FROM_PACKAGE", "WEBSITE_TIME_ZONE",
}

// requiredByPremium are settings that say on other plans what functionAppConfig says on
// Flex Consumption.
var requiredByPremium = map[string]string{"FUNCTIONS_WORKER_RUNTIME": "custom", "FUNCTIONS_EXTENSION_VERSION": "~4", "WEBSITE_RUN_FROM_PACKAGE": "1"}

func appSettingsFindings(f *bicepFile, d declaration, settings map[string]any) (found []string) {
	if _, unknown := expression(settings); unknown {
		return []string{"the settings are not known"}
	}
	if at(d.body(), "name") != "appsettings" {
		return []string{"the name is not appsettings"}
	}
	parent, _ := at(d.body(), "parent", "ref").(string)
	site, _ := f.find(parent)
	flex := at(site.Value, "properties", "functionAppConfig") != nil
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		switch {
		case flex && slices.Contains(refusedByFlex, name):
			found = append(found, name+" is refused by Flex Consumption")
		case !slices.Contains(platformSettings, name) && !appSettingName.MatchString(name):
			found = append(found, name+" is not a known setting")
		}
	}
	for name, value := range requiredByPremium {
		if !flex && settings[name] != value {
			found = append(found, fmt.Sprintf("%s is not %s", name, value))
		}
	}
	return found
}

// roles are the built-in roles that the templates assign.
// https://learn.microsoft.com/azure/role-based-access-control/built-in-roles
var roles = map[string]string{
	"b7e6dc6d-f1e8-4753-8033-0f276bb0955b": "Storage Blob Data Owner",
	"974c5e8b-45b9-4653-ba55-5f855dd0fb88": "Storage Queue Data Contributor",
	"3913510d-42f4-4e42-8a64-420c390055eb": "Monitoring Metrics Publisher",
	"7f951dda-4ed3-4680-a7ca-43fe172d538d": "AcrPull",
}

var roleID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func roleFindings(f *bicepFile, properties map[string]any) (found []string) {
	ids := roleID.FindAllString(shown(properties["roleDefinitionId"]), -1)
	if len(ids) == 0 { // the variable of a loop
		for _, d := range f.Declarations {
			if d.Kind == "variable" {
				ids = append(ids, roleID.FindAllString(shown(d.Value), -1)...)
			}
		}
	}
	if len(ids) == 0 {
		found = append(found, "no role is assigned")
	}
	for _, id := range ids {
		if roles[id] == "" {
			found = append(found, id+" is not a known role")
		}
	}
	return found
}

// containerFindings judges the containers of leases and dead letters, by the partition
// keys and the expiry that Halley accepts.
func containerFindings(properties map[string]any) (found []string) {
	resource := properties["resource"]
	id, _ := at(resource, "id").(string)
	keys := map[string][]any{"leases": {"/id"}, "deadletters": {"/id", "/partitionKey", "/function"}}
	key := at(resource, "partitionKey", "paths", 0)
	if allowed, ok := keys[id]; ok {
		if !slices.Contains(allowed, key) {
			found = append(found, fmt.Sprintf("the partition key is %v, want one of %v", shown(key), allowed))
		}
		if ttl, ok := at(resource, "defaultTtl").(float64); ok && ttl > 0 {
			found = append(found, "documents of this container must not expire")
		}
	}
	return found
}

var sqlScope = regexp.MustCompile(`^'\$\{account\.id\}(/dbs/[^/]+(/colls/[^/]+)?)?'$`)

// scopeFindings judges scopes of the data plane, which have their own words: not those
// of the management plane.
func scopeFindings(scopes any) (found []string) {
	list, ok := scopes.([]any)
	if !ok {
		list = []any{scopes}
	}
	for _, scope := range list {
		if text, ok := expression(scope); !ok || text != "account.id" && !sqlScope.MatchString(text) {
			found = append(found, fmt.Sprintf("%s is not a scope of the data plane", shown(scope)))
		}
	}
	return found
}

// dataActions are those that Halley uses, by the end of their scope: that of the
// database, and those of the monitored container, of the leases and of the dead letters.
// https://learn.microsoft.com/azure/cosmos-db/reference-data-plane-security
var dataActions = map[string][]string{
	"/dbs/${databaseName}'":                        {"readMetadata"},
	"/dbs/${databaseName}/colls/${containerName}'": {"sqlDatabases/containers/readChangeFeed"},
	"/dbs/${databaseName}/colls/leases'":           storeActions,
	"/dbs/${databaseName}/colls/deadletters'":      storeActions,
}

var storeActions = []string{
	"sqlDatabases/containers/executeQuery", "sqlDatabases/containers/items/create", "sqlDatabases/containers/items/delete",
	"sqlDatabases/containers/items/read", "sqlDatabases/containers/items/replace",
}

// assignmentFindings compares the actions of an assigned role with those that Halley
// needs in the assignment's scope.
func assignmentFindings(f *bicepFile, properties map[string]any) (found []string) {
	scope, _ := expression(properties["scope"])
	needed, known := dataActions[strings.TrimPrefix(scope, "'${account.id}")]
	if !known {
		return []string{"Halley needs no role in the scope " + scope}
	}
	id, _ := expression(properties["roleDefinitionId"])
	role, _ := f.find(strings.TrimSuffix(id, ".id"))
	var given []string
	actions, _ := at(role.Value, "properties", "permissions", 0, "dataActions").([]any)
	for _, action := range actions {
		text, _ := action.(string)
		name, _ := strings.CutPrefix(text, "Microsoft.DocumentDB/databaseAccounts/")
		if given = append(given, name); !slices.Contains(needed, name) {
			found = append(found, text+" is not an action that Halley needs in "+scope)
		}
	}
	for _, name := range needed {
		if !slices.Contains(given, name) {
			found = append(found, name+" is missing in "+scope)
		}
	}
	return found
}

// missingScopes are those in which a file that defines roles assigns none.
func missingScopes(f *bicepFile) (found []string) {
	assigned, defines := map[string]bool{}, false
	for _, d := range f.Declarations {
		defines = defines || strings.HasPrefix(d.Type, "Microsoft.DocumentDB/databaseAccounts/sqlRoleDefinitions@")
		if strings.HasPrefix(d.Type, "Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@") {
			scope, _ := expression(at(d.body(), "properties", "scope"))
			assigned[strings.TrimPrefix(scope, "'${account.id}")] = true
		}
	}
	for _, scope := range slices.Sorted(maps.Keys(dataActions)) {
		if defines && !assigned[scope] {
			found = append(found, "no role is assigned in the scope "+scope)
		}
	}
	return found
}

// containerAppFindings judges the names of settings, the time to stop, and that a
// replica starts.
func containerAppFindings(properties map[string]any) (found []string) {
	container := at(properties, "template", "containers", 0)
	encoded, _ := json.Marshal(at(container, "env"))
	var env []struct {
		Name  string
		Value any
	}
	if err := json.Unmarshal(encoded, &env); err != nil {
		return []string{err.Error()}
	}
	grace, address := "10s", ""
	for _, e := range env {
		if !appSettingName.MatchString(e.Name) {
			found = append(found, e.Name+" is not a known setting")
		}
		if e.Name == "HALLEY_STOP_GRACE" {
			grace, _ = e.Value.(string)
		}
		if e.Name == "HALLEY_METRICS_ADDRESS" {
			address, _ = e.Value.(string)
		}
	}
	for i, want := range []string{"Liveness", "Readiness"} {
		probe := at(properties, "template", "containers", 0, "probes", i)
		if at(probe, "type") != want || fmt.Sprintf(":%v", at(probe, "httpGet", "port")) != address {
			found = append(found, fmt.Sprintf("probe %d is not one of %s on %q", i, want, address))
		}
	}
	scale := at(properties, "template", "scale")
	if at(scale, "minReplicas") == 0.0 && at(scale, "rules") == nil {
		found = append(found, "no rule starts the first replica")
	}
	seconds, _ := at(properties, "template", "terminationGracePeriodSeconds").(float64)
	return append(found, graceFindings(seconds, grace)...)
}

// graceFindings judges the seconds between SIGTERM and SIGKILL: after the time that
// calls get, the app checkpoints and releases its leases.
func graceFindings(seconds float64, stopGrace string) []string {
	grace, err := time.ParseDuration(stopGrace)
	if err != nil {
		return []string{err.Error()}
	}
	if least := grace + 20*time.Second; seconds < least.Seconds() {
		return []string{fmt.Sprintf("terminationGracePeriodSeconds is %v, want at least %v", seconds, least.Seconds())}
	}
	return nil
}
