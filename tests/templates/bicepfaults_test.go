package templates

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestBicepOfTemplatesHasNoFindings(t *testing.T) {
	passes(t, "azd", checkBicep)
	passes(t, "container", checkBicep)
}

func TestBicepFaultsAreFound(t *testing.T) {
	const appFile, cosmosFile, mainFile = "infra/app.bicep", "infra/cosmos.bicep", "infra/main.bicep"
	finds(t, "azd", checkBicep, []fault{
		// Syntax and names.
		{appFile, "var flex = plan == 'flex'", "var flex = plan == 'flex", "cannot be parsed"},
		{appFile, "    Application_Type: 'web'\n", "    Application_Type: 'web'\n    Application_Type: 'other'\n", "the property Application_Type is there twice"},
		{appFile, "WorkspaceResourceId: logs.id", "WorkspaceResourceId: log.id", "log is not declared"},
		{appFile, "    insightsAccess\n", "    insightAccess\n", "insightAccess is not declared"},
		{appFile, "module cosmos 'cosmos.bicep'", "module cosmos 'account.bicep'", "there is no module account.bicep"},
		{appFile, "    principalId: identity.properties.principalId\n    tags", "    tags", "the parameter principalId is missing"},
		{appFile, "    accountName: 'cosmos", "    account: 'cosmos", "cosmos.bicep has no parameter account"},
		{appFile, "CosmosDB__accountEndpoint: cosmos.outputs.endpoint", "CosmosDB__accountEndpoint: cosmos.outputs.uri", "cosmos has no output uri"},
		{"infra/main.parameters.json", `"environmentName"`, `"environment"`, "the parameter environmentName is missing"},

		// Types and versions.
		{appFile, "'Microsoft.Web/serverfarms@2024-04-01' = if (flex)", "'Microsoft.Web/serverfarm@2024-04-01' = if (flex)", "Microsoft.Web/serverfarm@2024-04-01 is not a known type"},
		{cosmosFile, "sqlDatabases@2024-11-15", "sqlDatabases@2024-11-16", "sqlDatabases@2024-11-16 is not a known type"},
		{appFile, "'Microsoft.Storage/storageAccounts@2024-01-01' = {\n", "'Microsoft.Storage/storageAccounts@2024-01-01' = {\n  resource files 'fileService' = {\n    name: 'default'\n  }\n", "Microsoft.Storage/storageAccounts/fileService@2024-01-01 is not a known type"},
		{mainFile, "resourceGroups@2022-09-01", "resourceGroup@2022-09-01", "Microsoft.Resources/resourceGroup@2022-09-01 is not a known type"},

		// Properties: plain, required, nested, conditional, looped, in a branch, in a union.
		{appFile, "    retentionInDays: 30", "    retentionDays: 30", "logs.properties has retentionDays"},
		{appFile, "    Application_Type: 'web'\n", "", "insights.properties has no Application_Type"},
		{appFile, "'Microsoft.Storage/storageAccounts@2024-01-01' = {\n", "'Microsoft.Storage/storageAccounts@2024-01-01' = {\n  resource other 'blobServices' = {\n    name: 'default'\n    properties: {\n      versioning: true\n    }\n  }\n", "other.properties has versioning"},
		{appFile, "    maximumElasticWorkerCount: 4", "    maximumElasticWorkers: 4", "premiumPlan.properties has maximumElasticWorkers"},
		{appFile, "      principalType: 'ServicePrincipal'", "      principalKind: 'ServicePrincipal'", "storageAccess.properties has principalKind"},
		{appFile, "                instanceCount: 1", "                instances: 1", "alwaysReady[0] has instances"},
		{appFile, "  WEBSITE_RUN_FROM_PACKAGE: '1'", "  WEBSITE_RUN_FROM_PACKAGES: '1'", "WEBSITE_RUN_FROM_PACKAGES is not a known setting"},
		{cosmosFile, "    backupPolicy: {\n      type: 'Continuous'\n", "    backupPolicy: {\n", "account.properties.backupPolicy has no type"},
		{cosmosFile, "          '/id'\n        ]\n", "          '/id'\n        ]\n        keys: []\n", "leases.properties.resource.partitionKey has keys"},

		// Values.
		{appFile, "type: 'UserAssignedIdentity'", "type: 'UserAssigned'", `authentication.type is "UserAssigned"`},
		{appFile, "name: 'custom'", "name: 'golang'", `runtime.name is "golang"`},
		{appFile, "principalType: 'ServicePrincipal'", "principalType: 'ServicePrinciple'", `principalType is "ServicePrinciple"`},
		{appFile, "reserved: true", "reserved: 'true'", `flexPlan.properties.reserved is "true", want boolean`},
		{appFile, "instanceCount: 1", "instanceCount: '${plan}'", "instanceCount is the string '${plan}'"},
		{appFile, "HALLEY_START_FROM: 'beginning'", "HALLEY_START_FROM: 5", "HALLEY_START_FROM is 5, want string"},
		{appFile, "publicAccess: 'None'", "publicAccess: false", "publicAccess is false"},
		{cosmosFile, "tier: 'Continuous7Days'", "tier: 'Continuous8Days'", `tier is "Continuous8Days"`},
		{cosmosFile, "kind: 'Hash'", "kind: 'hash'", `partitionKey.kind is "hash"`},
		{cosmosFile, "version: 2", "version: 3", "version is 3, want integer 1..2"},

		// Rules that no schema has.
		{appFile, "maximumInstanceCount: 40", "maximumInstanceCount: 4", "maximumInstanceCount is 4, want integer 40..1000"},
		{appFile, "instanceMemoryMB: 2048", "instanceMemoryMB: 512", "instanceMemoryMB is 512"},
		{appFile, "name: 'function:function'", "name: 'function'", "alwaysReady names no function"},
		{appFile, "            userAssignedIdentityResourceId: identity.id\n", "", "UserAssignedIdentity needs userAssignedIdentityResourceId"},
		{appFile, "  HALLEY_MODE: mode", "  HALLEY_MODE: mode\n  FUNCTIONS_WORKER_RUNTIME: 'custom'", "flexSettings: FUNCTIONS_WORKER_RUNTIME is refused by Flex Consumption"},
		{appFile, "  FUNCTIONS_WORKER_RUNTIME: 'custom'\n", "", "premiumAppSettings: FUNCTIONS_WORKER_RUNTIME is not custom"},
		{appFile, "  HALLEY_DATABASE_NAME", "  HALEY_DATABASE_NAME", "HALEY_DATABASE_NAME is not a known setting"},
		{appFile, "AzureWebJobsStorage__queueServiceUri", "AzureWebJobsStorage__fileServiceUri", "AzureWebJobsStorage__fileServiceUri is not a known setting"},
		{appFile, "974c5e8b-45b9", "974c5e8b-45b8", "is not a known role"},
		{cosmosFile, "items/replace'", "items/update'", "items/update is not an action that Halley needs"},
		{cosmosFile, "          'Microsoft.DocumentDB/databaseAccounts/readMetadata'\n", "", "readMetadata is missing"},
		{cosmosFile, "    scope: '${account.id}/dbs/", "    scope: '${account.id}/sqlDatabases/", "is not a scope of the data plane"},
		{cosmosFile, "    scope: '${account.id}/dbs/${databaseName}/colls/deadletters'", "    scope: '${account.id}/dbs/${databaseName}/colls/leases'", "no role is assigned in the scope /dbs/${databaseName}/colls/deadletters"},
		{cosmosFile, "    roleDefinitionId: feedRole.id", "    roleDefinitionId: storeRole.id", "readChangeFeed is missing in '${account.id}/dbs/${databaseName}/colls/${containerName}'"},
		{appFile, "scheduledQueryRules@2023-12-01", "scheduledQueryRules@2023-12-02", "scheduledQueryRules@2023-12-02 is not a known type"},
		{appFile, "    windowSize: 'PT5M'", "    windowSize: 'PT1M'", "lagAlert: the rule looks at PT1M every PT5M"},
		{appFile, "    windowSize: 'PT5M'", "    windowSize: 'PT7M'", `windowSize is "PT7M"`},
		{appFile, "    severity: 2", "    severity: 5", "severity is 5, want integer 0..4"},
		{appFile, "numberOfEvaluationPeriods: 2", "numberOfEvaluationPeriods: 1", "2 of 1 periods cannot fail"},
		{appFile, "          metricMeasureColumn: 'lag'\n", "", "metricMeasureColumn is missing"},
		{appFile, "metricMeasureColumn: 'lag'", "metricMeasureColumn: 'seconds'", "the query has no column seconds"},
		{appFile, `startswith "halley_lag_seconds"`, `startswith "halley_lag_second"`, "halley_lag_second is not a metric"},
		{appFile, `line.message == "metrics"`, `line.message == "metric"`, `no line of the log has the message "metric"`},
		{appFile, `line.message == "change dead-lettered"`, `line.message == "dead-lettered"`, `no line of the log has the message "dead-lettered"`},
		{appFile, `query: 'traces | extend`, `query: 'AppTraces | extend`, "the scope insights.id has no table AppTraces"},
		{appFile, "    scopes: [\n      insights.id", "    scopes: [\n      logs.id", "the scope logs.id has no table traces"},
		{appFile, "[alertReceivers.id]", "[alertReceiver.id]", "alertReceiver is not declared"},
		{appFile, "groupShortName: 'halley'", "groupShortName: 'halley alerts'", `groupShortName is "halley alerts"`},
		{mainFile, "    alertEmail: alertEmail", "    alertMail: alertEmail", "app.bicep has no parameter alertMail"},
		{cosmosFile, "          '/id'\n", "          '/lease'\n", `leases: the partition key is "/lease"`},
		{cosmosFile, "      id: 'leases'\n", "      id: 'leases'\n      defaultTtl: 3600\n", "documents of this container must not expire"},
	})
}

func TestContainerAppFaultsAreFound(t *testing.T) {
	const file = "infra/containerapp.bicep"
	finds(t, "container", checkBicep, []fault{
		{file, "terminationGracePeriodSeconds: 40", "terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds is 30, want at least 40"},
		{file, "    value: ':9464'", "    value: ':9465'", `probe 0 is not one of Liveness on ":9465"`},
		{file, "path: '/readyz'", "path: '/ready'", `path is "/ready"`},
		{file, "        rules: scaleRules\n", "        rules: [\n          {\n            name: 'lag'\n            custom: {\n              type: 'azure-cosmosdb'\n            }\n          }\n        ]\n", `type is "azure-cosmosdb", want one of`},
		{file, "        minReplicas: empty(scaleRules) ? replicas : 0\n        maxReplicas: replicas\n        rules: scaleRules\n", "        minReplicas: 0\n        maxReplicas: replicas\n", "no rule starts the first replica"},
		{file, "    value: '20s'", "    vaule: '20s'", "env[7] has vaule"},
		{file, "name: 'HALLEY_CONTAINER_NAME'", "name: 'HALLEY_CONTAINER-NAME'", "HALLEY_CONTAINER-NAME is not a known setting"},
		{file, "            cpu: json('0.25')\n            memory: '0.5Gi'", "            cpu: '0.25'\n            memory: '0.5Gi'", `cpu is "0.25", want number`},
		{file, "'7f951dda-4ed3-4680-a7ca-43fe172d538d'", "'7f951dda-4ed3-4680-a7ca-43fe172d538e'", "is not a known role"},
		{file, "registries@2023-07-01' existing", "registries@2023-17-01' existing", "registries@2023-17-01 is not a known type"},
	})
}

var deploymentCommand = regexp.MustCompile(`(?m)az deployment group create -g GROUP -f (infra/\w+\.bicep)( -p( \w+=\S+)+)?`)

// checkCommands compares the parameters in the README's commands with those of the
// Bicep files.
func checkCommands(t *testing.T, apps []string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for app, a := range parseBicep(t, apps) {
		commands := deploymentCommand.FindAllStringSubmatch(string(readFile(t, filepath.Join(app, "README.md"))), -1)
		if len(commands) == 0 {
			found[app] = append(found[app], "the README creates no deployment")
		}
		for _, command := range commands {
			file := a.files[filepath.Base(command[1])]
			if file == nil {
				found[app] = append(found[app], "there is no "+command[1])
				continue
			}
			given := map[string]any{}
			for _, parameter := range strings.Fields(command[2]) {
				name, value, ok := strings.Cut(parameter, "=")
				if !ok {
					continue
				}
				given[name] = value
				if file, isFile := strings.CutPrefix(value, "@"); isFile {
					if _, err := os.Stat(filepath.Join(app, file)); err != nil {
						found[app] = append(found[app], err.Error())
					}
				}
			}
			found[app] = append(found[app], file.wrongParameters(given)...)
		}
	}
	return found
}

func TestCommandsOfReadmesFitTheBicep(t *testing.T) {
	passes(t, "azd", checkCommands)
	passes(t, "container", checkCommands)
	finds(t, "container", checkCommands, []fault{
		{"README.md", "-p principalId=", "-p principal=", "cosmos.bicep has no parameter principal"},
		{"README.md", " image=shop:1", "", "the parameter image is missing"},
		{"README.md", "@infra/schedule.json", "@infra/rules.json", "no such file or directory"},
		{"README.md", "-f infra/cosmos.bicep", "-f infra/account.bicep", "there is no infra/account.bicep"},
	})
}
