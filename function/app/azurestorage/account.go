package azurestorage

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"halley/function/app/internal/account"
	"halley/function/app/internal/settings"
	"halley/trigger/cosmos"
	"halley/trigger/redact"
)

// developmentStorage replaces UseDevelopmentStorage=true: Azurite on its default
// ports,
// https://learn.microsoft.com/azure/storage/common/storage-connect-azurite
const developmentStorage = "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;" +
	"AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;" +
	"BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;QueueEndpoint=http://127.0.0.1:10001/devstoreaccount1"

// storage is an Azure Storage account with the credential of the caller: a
// connection string, or the services' URLs and an identity.
type storage struct {
	name             string // of the connection
	connectionString string // with its secret
	blobs, queues    string // service URLs, for the identity
	identity         azcore.TokenCredential
}

// resolveStorage resolves the name of a storage connection as Azure Functions
// resolves AzureWebJobsStorage. If the variable of that name is set it is a
// connection string. If not, <name>__accountName, or <name>__blobServiceUri and
// <name>__queueServiceUri, are used with an Entra ID identity. No error repeats a
// secret.
func resolveStorage(name settings.ConnectionName, unnamed account.Credential) (storage, error) {
	if name.Misplaced() {
		return storage{}, errors.New("a connection is a name, not the connection string: put the string into a variable such as AzureWebJobsStorage and name that")
	}
	s := storage{name: string(name)}
	value := account.Variable(s.name)
	if value != "" {
		if err := account.RefuseSecondForm(s.name, "accountName", "blobServiceUri", "queueServiceUri", "credential", "clientId"); err != nil {
			return storage{}, err
		}
	}
	switch {
	case strings.EqualFold(strings.TrimSuffix(value, ";"), "UseDevelopmentStorage=true"):
		s.connectionString = developmentStorage
		return s, nil
	case value != "":
		redact.Learn(value)
		s.connectionString = value
		return s, nil
	}
	return s, s.byIdentity(unnamed)
}

// byIdentity reads <name>__accountName and its companions.
func (s *storage) byIdentity(unnamed account.Credential) error {
	parts := map[string]string{}
	for _, part := range []string{"accountName", "blobServiceUri", "queueServiceUri", "tableServiceUri", "credential", "clientId"} {
		parts[strings.ToLower(part)] = account.Variable(s.name + "__" + part)
	}
	name := parts["accountname"]
	if name == "" && parts["blobserviceuri"] == "" {
		return fmt.Errorf("connection %s is not set: set %s to the storage account's connection string, or %s__accountName to its name",
			s.name, s.name, s.name)
	}
	if err := account.RefuseUnknownParts(s.name, parts, "__accountName or __blobServiceUri and __queueServiceUri, with __credential and __clientId"); err != nil {
		return err
	}
	var err error
	if s.blobs, err = s.serviceURL("blob", name, parts["blobserviceuri"]); err != nil {
		return err
	}
	if s.queues, err = s.serviceURL("queue", name, parts["queueserviceuri"]); err != nil {
		return err
	}
	_, s.identity, err = account.Identity(s.name, parts["credential"], parts["clientid"], unnamed)
	return err
}

// serviceURL returns the address of the blob or the queue service. It is "" if only
// the other one is set.
func (s *storage) serviceURL(service, account, uri string) (string, error) {
	if uri == "" && account == "" {
		return "", nil
	}
	if uri == "" {
		if !storageAccountName(account) {
			return "", fmt.Errorf("%s__accountName=%q is not the name of a storage account: write 3 to 24 lower-case letters and digits, and for another cloud %s__blobServiceUri and %s__queueServiceUri", s.name, account, s.name, s.name)
		}
		return "https://" + account + "." + service + ".core.windows.net", nil
	}
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return "", fmt.Errorf("%s__%sServiceUri is not an https URL: write one such as https://ACCOUNT.%s.core.windows.net", s.name, service, service)
	}
	return strings.TrimSuffix(uri, "/"), nil
}

func storageAccountName(s string) bool {
	return len(s) <= 24 && storageName().MatchString(s) && !strings.Contains(s, "-")
}

// clientOptions bound what the SDK reads of an error.
func clientOptions() azcore.ClientOptions {
	return azcore.ClientOptions{Transport: cosmos.LimitErrors(nil)}
}

// blobContainer makes a client of a blob container. No I/O.
func (s *storage) blobContainer(name string) (*container.Client, error) {
	if s.connectionString == "" {
		return container.NewClient(s.blobs+"/"+name, s.identity, &container.ClientOptions{ClientOptions: clientOptions()})
	}
	c, err := container.NewClientFromConnectionString(s.connectionString, name, &container.ClientOptions{ClientOptions: clientOptions()})
	if err != nil {
		return nil, s.malformed(err)
	}
	return c, nil
}

// queue makes a client of a queue. No I/O.
func (s *storage) queue(name string) (*azqueue.QueueClient, error) {
	switch {
	case s.connectionString == "" && s.queues == "":
		return nil, fmt.Errorf("%s__queueServiceUri is not set: set it, or %s__accountName", s.name, s.name)
	case s.connectionString == "":
		return azqueue.NewQueueClient(s.queues+"/"+name, s.identity, &azqueue.ClientOptions{ClientOptions: clientOptions()})
	}
	q, err := azqueue.NewQueueClientFromConnectionString(s.connectionString, name, &azqueue.ClientOptions{ClientOptions: clientOptions()})
	if err != nil {
		return nil, s.malformed(err)
	}
	return q, nil
}

// malformed describes an invalid connection string without repeating its secrets.
func (s *storage) malformed(err error) error {
	text := err.Error()
	for part := range strings.SplitSeq(s.connectionString, ";") {
		if _, secret, ok := strings.Cut(part, "="); ok && len(secret) > 3 {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return fmt.Errorf("%s is not a storage connection string: %s", s.name, text)
}
