package account

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"halley/function/app/internal/settings"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

const someKey = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="

// connectionEnv removes the connections that the test's own environment may hold, and
// sets env.
func connectionEnv(t *testing.T, env map[string]string) {
	t.Helper()
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if upper := strings.ToUpper(name); strings.HasPrefix(upper, "COSMOSDB") || strings.HasPrefix(upper, "AZURE_") || upper == "OTHER" || upper == "EMULATOR" {
			t.Setenv(name, "") // restores it afterwards
			os.Unsetenv(name)
		}
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
}

func TestKeyOfEmulators(t *testing.T) {
	if emulatorKey != emulator.Key {
		t.Error("the embedded account has another key")
	}
}

func TestResolveConnection(t *testing.T) {
	for name, test := range map[string]struct {
		env            map[string]string
		connection     settings.ConnectionName
		endpoint, kind string
	}{
		"connection string": {map[string]string{"CosmosDB": "AccountEndpoint=https://games.documents.azure.com:443/;AccountKey=" + someKey + ";"},
			"CosmosDB", "https://games.documents.azure.com:443/", "connection string in CosmosDB"},
		"another name": {map[string]string{"OTHER": "AccountEndpoint=https://a.documents.azure.com;AccountKey=" + someKey},
			"OTHER", "https://a.documents.azure.com", "connection string in OTHER"},
		"any case": {map[string]string{"COSMOSDB__ACCOUNTENDPOINT": "https://a.documents.azure.com", "COSMOSDB__CREDENTIAL": "ManagedIdentity"},
			"CosmosDB", "https://a.documents.azure.com", "system-assigned managed identity"},
		"emulator":         {map[string]string{"CosmosDB": "emulator"}, "CosmosDB", "http://127.0.0.1:8081/", "local emulator"},
		"emulator by name": {nil, "emulator", "http://127.0.0.1:8081/", "local emulator"},
		"user-assigned identity": {map[string]string{"CosmosDB__accountEndpoint": "https://a.documents.azure.com", "CosmosDB__credential": "managedidentity", "CosmosDB__clientId": "1234"},
			"CosmosDB", "https://a.documents.azure.com", "managed identity 1234"},
		"default chain": {map[string]string{"CosmosDB__accountEndpoint": "https://a.documents.azure.com"},
			"CosmosDB", "https://a.documents.azure.com", "managed identity, Azure CLI or Azure Developer CLI"},
		"key in parts": {map[string]string{"CosmosDB__accountEndpoint": "https://a.documents.azure.com", "CosmosDB__accountKey": someKey},
			"CosmosDB", "https://a.documents.azure.com", "account key in CosmosDB__accountKey"},
	} {
		t.Run(name, func(t *testing.T) {
			connectionEnv(t, test.env)
			c, err := Resolve(settings.ConnectionDefaults{}, test.connection)
			if err != nil {
				t.Fatal(err)
			}
			if c.Endpoint != test.endpoint || c.Kind != test.kind {
				t.Errorf("got %s by %s, want %s by %s", c.Endpoint, c.Kind, test.endpoint, test.kind)
			}
			if _, err := c.Client(cosmos.ClientOptions{}); err != nil {
				t.Errorf("no client: %v", err)
			}
		})
	}
}

func TestConnectionsAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		env        map[string]string
		connection settings.ConnectionName
		says       []string
	}{
		"not set":           {nil, "CosmosDB", []string{"CosmosDB is not set", "CosmosDB__accountEndpoint", "emulator"}},
		"string as name":    {nil, "AccountEndpoint=https://a/;AccountKey=" + someKey, []string{"name"}},
		"malformed string":  {map[string]string{"CosmosDB": "AccountEndpoint=https://a.documents.azure.com"}, "CosmosDB", []string{"CosmosDB", "AccountKey"}},
		"bad key":           {map[string]string{"CosmosDB__accountEndpoint": "https://a.documents.azure.com", "CosmosDB__accountKey": "?"}, "CosmosDB", []string{"CosmosDB__accountKey", "base64"}},
		"key and identity":  {map[string]string{"CosmosDB__accountEndpoint": "https://a", "CosmosDB__accountKey": someKey, "CosmosDB__credential": "managedidentity"}, "CosmosDB", []string{"CosmosDB__accountKey", "identity"}},
		"unknown method":    {map[string]string{"CosmosDB__accountEndpoint": "https://a", "CosmosDB__credential": "password"}, "CosmosDB", []string{"CosmosDB__credential", "managedidentity"}},
		"client id alone":   {map[string]string{"CosmosDB__accountEndpoint": "https://a", "CosmosDB__clientId": "12"}, "CosmosDB", []string{"CosmosDB__clientId", "CosmosDB__credential=managedidentity"}},
		"part that is lost": {map[string]string{"CosmosDB__accountEndpoint": "https://a", "CosmosDB__clientSecret": someKey}, "CosmosDB", []string{"CosmosDB__clientSecret"}},
	} {
		t.Run(name, func(t *testing.T) {
			connectionEnv(t, test.env)
			_, err := Resolve(settings.ConnectionDefaults{}, test.connection)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, says := range test.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("error does not say %q: %v", says, err)
				}
			}
			if strings.Contains(err.Error(), someKey) {
				t.Errorf("error shows the key: %v", err)
			}
		})
	}
}

// TestMisplacedConnectionString: a connection string in the place of its name is
// printed nowhere.
func TestMisplacedConnectionString(t *testing.T) {
	for name, want := range map[settings.ConnectionName]string{
		"CosmosDB": "CosmosDB",
		"AccountEndpoint=https://a/;AccountKey=" + someKey + ";": "[redacted]",
		"https://a/?sig=" + someKey:                              "[redacted]",
	} {
		v := struct{ Name settings.ConnectionName }{name}
		encoded, err := json.Marshal(v)
		if err != nil || string(encoded) != `{"Name":"`+want+`"}` {
			t.Errorf("JSON %s, %v", encoded, err)
		}
		text := fmt.Sprintf("%s %v %q %+v %#v %x", name, name, name, v, v, name)
		if !strings.Contains(text, want) || strings.Contains(text, someKey) || strings.Contains(text, fmt.Sprintf("%x", someKey)) {
			t.Errorf("printed as %s", text)
		}
	}
}

// TestSelfSignedLoopback: emulators on this machine sign their own certificate,
// and only there is it taken.
func TestSelfSignedLoopback(t *testing.T) {
	account, err := emulator.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer account.Close()
	server := httptest.NewTLSServer(http.HandlerFunc(account.ServeHTTP))
	defer server.Close()
	connectionEnv(t, map[string]string{"CosmosDB": "AccountEndpoint=" + server.URL + ";AccountKey=" + emulator.Key})
	c, err := Resolve(settings.ConnectionDefaults{}, "CosmosDB")
	if err != nil {
		t.Fatal(err)
	}
	client, err := c.Client(cosmos.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Account(t.Context()); err != nil && !strings.Contains(err.Error(), "halley.emulator") {
		t.Error(err)
	}
}
