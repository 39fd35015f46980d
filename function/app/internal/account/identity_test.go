package account

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/function/app/internal/settings"
)

// fixed is a credential with one token.
type fixed string

func (f fixed) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: string(f)}, nil
}

func TestUnnamedIdentityIsTheApps(t *testing.T) {
	connectionEnv(t, map[string]string{"CosmosDB__accountEndpoint": "https://a.documents.azure.com"})
	c, err := Resolve(settings.ConnectionDefaults{Unnamed: func() (azcore.TokenCredential, error) { return fixed("x"), nil }}, "CosmosDB")
	if err != nil || c.Kind != "the app's Entra ID credential" {
		t.Errorf("%+v, %v", c, err)
	}
	t.Setenv("CosmosDB__credential", "managedidentity")
	if c, err := Resolve(settings.ConnectionDefaults{Unnamed: func() (azcore.TokenCredential, error) { return nil, os.ErrInvalid }}, "CosmosDB"); err != nil || c.Kind != "system-assigned managed identity" {
		t.Errorf("a named identity: %+v, %v", c, err)
	}
}

// A variable of a credential that is not linked would be ignored, and another identity
// would be used.
func TestUnlinkedCredentialsAreRefused(t *testing.T) {
	for _, variable := range []string{"AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_TOKEN_CREDENTIALS"} {
		t.Run(variable, func(t *testing.T) {
			connectionEnv(t, map[string]string{"CosmosDB__accountEndpoint": "https://a.documents.azure.com", variable: "hunter2"})
			_, err := Resolve(settings.ConnectionDefaults{}, "CosmosDB")
			if err == nil || !strings.Contains(err.Error(), variable) || !strings.Contains(err.Error(), "app.Options") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestManagedIdentityIsSkippedIfNothingAnswers(t *testing.T) {
	for _, variable := range []string{"IDENTITY_ENDPOINT", "MSI_ENDPOINT"} {
		t.Setenv(variable, "")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	credential := reachable{fixed("x"), listener.Addr().String()}
	if token, err := credential.GetToken(t.Context(), policy.TokenRequestOptions{}); err != nil || token.Token != "x" {
		t.Errorf("token %v, %v", token, err)
	}
	listener.Close()
	if _, err := credential.GetToken(t.Context(), policy.TokenRequestOptions{}); err == nil || !strings.Contains(err.Error(), "no managed identity") {
		t.Errorf("nothing answers: %v", err)
	}
	t.Setenv("IDENTITY_ENDPOINT", "http://127.0.0.1:1/token")
	if token, err := credential.GetToken(t.Context(), policy.TokenRequestOptions{}); err != nil || token.Token != "x" {
		t.Errorf("another platform: token %v, %v", token, err)
	}
}
