package functions

import (
	"strings"
	"testing"
)

func TestBindingIsTranslated(t *testing.T) {
	settings := map[string]string{"DB": "shop", "ENVIRONMENT": "prod", "AGAIN": "True"}
	tests := []struct{ name, function, host, want string }{
		{"the defaults of the trigger", `{"bindings": [{"type": "cosmosDBTrigger", "name": "docs", "direction": "in", "databaseName": "shop", "containerName": "orders"}]}`, "", `
			CONNECTION=CosmosDB
			DATABASE_NAME=shop
			CONTAINER_NAME=orders
			LEASE_CONNECTION=CosmosDB
			LEASE_DATABASE_NAME=shop
			LEASE_CONTAINER_NAME=leases
			LEASE_CONTAINER_PREFIX=/
			START_FROM=now`},
		{"version 4", `{"bindings": [
			{"type": "cosmosDBTrigger", "name": "docs", "direction": "in", "connection": "Account", "databaseName": "%DB%", "containerName": "orders-%ENVIRONMENT%",
			"leaseConnection": "Leases", "leaseDatabaseName": "work", "leaseContainerName": "locks", "leaseContainerPrefix": "mail", "createLeaseContainerIfNotExists": true,
			"leasesContainerThroughput": 400, "feedPollDelay": 1000, "leaseAcquireInterval": 20000, "leaseExpirationInterval": "90000", "LeaseRenewInterval": 1000000,
			"maxItemsPerInvocation": 50, "startFromBeginning": true, "preferredLocations": "West Europe,North Europe", "changeFeedMode": "AllVersionsAndDeletes"},
			{"type": "queue", "name": "out", "direction": "out"}],
			"retry": {"strategy": "fixedDelay", "maxRetryCount": 4, "delayInterval": "00:00:10"}}`, "", `
			CONNECTION=Account
			DATABASE_NAME=shop
			CONTAINER_NAME=orders-prod
			LEASE_CONNECTION=Leases
			LEASE_DATABASE_NAME=work
			LEASE_CONTAINER_NAME=locks
			LEASE_CONTAINER_PREFIX=mail
			FEED_POLL_DELAY=1s
			LEASE_ACQUIRE_INTERVAL=20s
			LEASE_EXPIRATION_INTERVAL=1m30s
			LEASE_RENEW_INTERVAL=16m40s
			MAX_ITEMS_PER_INVOCATION=50
			PREFERRED_LOCATIONS=West Europe,North Europe
			CHANGE_FEED_MODE=AllVersionsAndDeletes
			START_FROM=beginning
			MAX_ATTEMPTS=5
			RETRY_MIN=10s
			RETRY_MAX=10s
			note: binding out of type queue
			note: createLeaseContainerIfNotExists: Halley creates no containers
			note: leasesContainerThroughput: Halley creates no containers`},
		{"version 3, with options of the host", `{"bindings": [{"type": "CosmosDBTrigger", "connectionStringSetting": "Account", "databaseName": "shop", "collectionName": "orders",
			"leaseConnectionStringSetting": "Leases", "leaseCollectionName": "locks", "checkpointInterval": 5000, "checkpointDocumentCount": 200,
			"feedPollDelay": 0, "startFromTime": "2026-01-31T09:00:00", "useDefaultJsonSerialization": true, "somethingNew": 1, "dataType": null}]}`,
			`{"version": "2.0", "extensions": {"cosmosDB": {"leaseOptions": {"leasePrefix": "all"}}}, "retry": {"strategy": "exponentialBackoff", "maxRetryCount": -1, "minimumInterval": "00:00:01", "maximumInterval": "00:05:00"}}`, `
			CONNECTION=Account
			DATABASE_NAME=shop
			CONTAINER_NAME=orders
			LEASE_CONNECTION=Leases
			LEASE_DATABASE_NAME=shop
			LEASE_CONTAINER_NAME=locks
			LEASE_CONTAINER_PREFIX=all
			START_FROM=2026-01-31T09:00:00Z
			CHECKPOINT_INTERVAL=5s
			CHECKPOINT_EVERY=200
			MAX_ATTEMPTS=unlimited
			RETRY_MIN=1s
			RETRY_MAX=5m0s
			note: somethingNew: no setting is known
			note: useDefaultJsonSerialization: the handler decodes`},
		{"an own prefix in version 3", `{"bindings": [{"type": "cosmosDBTrigger", "databaseName": "shop", "collectionName": "orders", "leaseCollectionPrefix": "own", "startFromBeginning": "%AGAIN%"}]}`,
			`{"extensions": {"cosmosDB": {"leaseOptions": {"leasePrefix": "all"}}}}`, `
			CONNECTION=CosmosDB
			DATABASE_NAME=shop
			CONTAINER_NAME=orders
			LEASE_CONNECTION=CosmosDB
			LEASE_DATABASE_NAME=shop
			LEASE_CONTAINER_NAME=leases
			LEASE_CONTAINER_PREFIX=own
			START_FROM=beginning`},
		{"values that are not known here", `{"bindings": [{"type": "cosmosDBTrigger", "databaseName": "shop", "containerName": "%MISSING%-%ENVIRONMENT%", "leaseContainerName": "%MISSING%",
			"connection": "AccountEndpoint=https://a;AccountKey=c2%VjcmV0%", "leaseConnection": "AccountEndpoint=https://a;AccountKey=c2VjcmV0", "startFromBeginning": "%MISSING%", "feedPollDelay": "soon", "maxItemsPerInvocation": -1}]}`,
			`{"extensions": {"cosmosDB": {"leaseOptions": {"leasePrefix": "ignored by version 4"}}}}`, `
			DATABASE_NAME=shop
			LEASE_DATABASE_NAME=shop
			LEASE_CONTAINER_PREFIX=/
			open: HALLEY_MAIL_CONNECTION: [redacted] is not the name of an app setting
			open: HALLEY_MAIL_CONTAINER_NAME: "%MISSING%-prod" refers to %MISSING%, which is not set here
			open: HALLEY_MAIL_LEASE_CONNECTION: [redacted] is not the name of an app setting
			open: HALLEY_MAIL_LEASE_CONTAINER_NAME: "%MISSING%" refers to %MISSING%, which is not set here
			open: HALLEY_MAIL_FEED_POLL_DELAY: "soon" is not a whole number from 0 to 2147483647
			open: HALLEY_MAIL_MAX_ITEMS_PER_INVOCATION: "-1" is not a whole number from 0 to 2147483647
			open: HALLEY_MAIL_START_FROM: "%MISSING%" refers to %MISSING%, which is not set here`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			const prefix = "HALLEY_MAIL_"
			got, err := TranslateBinding([]byte(test.function), []byte(test.host), prefix, func(name string) string { return settings[name] })
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, s := range got.Settings {
				lines = append(lines, strings.TrimPrefix(s[0], prefix)+"="+s[1])
			}
			for _, o := range got.Open {
				lines = append(lines, "open: "+o)
			}
			for _, n := range got.Notes {
				lines = append(lines, "note: "+n)
			}
			want := strings.Split(strings.TrimSpace(test.want), "\n")
			for i := range max(len(lines), len(want)) {
				switch {
				case i >= len(lines):
					t.Errorf("missing: %s", want[i])
				case i >= len(want):
					t.Errorf("too much: %s", lines[i])
				case !strings.HasPrefix(lines[i], strings.TrimSpace(want[i])):
					t.Errorf("got %s, want %s", lines[i], strings.TrimSpace(want[i]))
				}
			}
		})
	}
}

func TestBindingThatCannotBeTranslated(t *testing.T) {
	binding := func(properties string) string { return `{"bindings": [{"type": "cosmosDBTrigger"` + properties + `}]}` }
	tests := []struct{ name, function, host, want string }{
		{"not JSON", "{", "", "not valid JSON"},
		{"another trigger", `{"bindings": [{"type": "queueTrigger"}]}`, "", "no binding of type cosmosDBTrigger"},
		{"no container", binding(`, "databaseName": "shop"`), "", "the binding has no containerName"},
		{"no database", binding(`, "containerName": "orders"`), "", "the binding has no databaseName"},
		{"two starts", binding(`, "databaseName": "shop", "containerName": "orders", "startFromBeginning": true, "startFromTime": "2026-01-31"`), "", "exclude each other"},
		{"host.json", binding(`, "databaseName": "shop", "containerName": "orders"`), "{", "host.json: not valid JSON"},
		{"a wait", `{"bindings": [{"type": "cosmosDBTrigger", "databaseName": "shop", "containerName": "orders"}], "retry": {"maxRetryCount": 1, "minimumInterval": "soon"}}`, "", `retry: "soon" is not a time span`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := TranslateBinding([]byte(test.function), []byte(test.host), "HALLEY_MAIL_", func(string) string { return "" })
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}
