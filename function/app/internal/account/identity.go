package account

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// Credential makes the Entra ID credential of connections that name none. Nil stands
// for [machineCredential].
type Credential func() (azcore.TokenCredential, error)

// Identity returns the requested managed identity, or if none is requested the
// credential that the app has for such connections.
func Identity(name, credential, clientID string, unnamed Credential) (kind string, token azcore.TokenCredential, err error) {
	switch {
	case strings.EqualFold(credential, "managedidentity"):
		kind = "system-assigned managed identity"
		opts := &azidentity.ManagedIdentityCredentialOptions{}
		if clientID != "" {
			kind, opts.ID = "managed identity "+clientID, azidentity.ClientID(clientID)
		}
		token, err = azidentity.NewManagedIdentityCredential(opts)
	case credential != "":
		return "", nil, fmt.Errorf(`%s__credential=%q is not known: write "managedidentity", or leave it out for the app's credential`, name, credential)
	case clientID != "":
		return "", nil, fmt.Errorf("%s__clientId names a managed identity: set %s__credential=managedidentity as well", name, name)
	case unnamed != nil:
		kind = "the app's Entra ID credential"
		token, err = unnamed()
	default:
		kind = "managed identity, Azure CLI or Azure Developer CLI"
		token, err = machineCredential()
	}
	if err != nil {
		return "", nil, fmt.Errorf("identity of connection %s: %w", name, err)
	}
	return kind, token, nil
}

// machineCredential is the identity of the machine or of its developer: a managed
// identity (that of AZURE_CLIENT_ID, if it is set), the login of the Azure CLI, or that
// of the Azure Developer CLI. Azure's default chain has more, and makes a binary a
// megabyte larger.
func machineCredential() (azcore.TokenCredential, error) {
	for _, variable := range []string{"AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_TOKEN_CREDENTIALS"} {
		if os.Getenv(variable) != "" {
			return nil, fmt.Errorf("%s selects a credential that this app does not link: set the field Credential of app.Options, for example to azidentity.NewDefaultAzureCredential, or unset the variable", variable)
		}
	}
	opts := &azidentity.ManagedIdentityCredentialOptions{}
	if id := os.Getenv("AZURE_CLIENT_ID"); id != "" {
		opts.ID = azidentity.ClientID(id)
	}
	managed, err := azidentity.NewManagedIdentityCredential(opts)
	cli, cliErr := azidentity.NewAzureCLICredential(nil)
	azd, azdErr := azidentity.NewAzureDeveloperCLICredential(nil)
	if err := errors.Join(err, cliErr, azdErr); err != nil {
		return nil, err
	}
	return azidentity.NewChainedTokenCredential([]azcore.TokenCredential{reachable{managed, imds}, cli, azd}, nil)
}

// reachable is a managed identity that is skipped on a machine without any: requests
// for a token would be repeated there for a minute.
type reachable struct {
	azcore.TokenCredential
	address string // of the metadata service of virtual machines
}

// imds is the metadata service of virtual machines in Azure. Other platforms name the
// address of theirs in the environment.
// https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service
const imds = "169.254.169.254:80"

// GetToken implements [azcore.TokenCredential].
func (r reachable) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	if os.Getenv("IDENTITY_ENDPOINT") == "" && os.Getenv("MSI_ENDPOINT") == "" {
		dialer := net.Dialer{Timeout: time.Second}
		c, err := dialer.DialContext(ctx, "tcp", r.address)
		if err != nil {
			return azcore.AccessToken{}, azidentity.NewCredentialUnavailableError("no managed identity: " + err.Error())
		}
		_ = c.Close()
	}
	return r.TokenCredential.GetToken(ctx, options)
}
