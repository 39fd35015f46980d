package azurestorage

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"halley/function/app/internal/settings"
	"halley/trigger/deadletter"
)

const someKey = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="

func storageEnv(t *testing.T, env map[string]string) {
	t.Helper()
	for _, name := range []string{"AzureWebJobsStorage", "AzureWebJobsStorage__accountName", "Other"} {
		if _, ok := env[name]; !ok {
			t.Setenv(name, "")
		}
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
}

func TestResolveStorage(t *testing.T) {
	const vault = "https://vault.blob.core.windows.net/dead"
	for name, test := range map[string]struct {
		env          map[string]string
		connection   settings.ConnectionName
		blobs, queue string
	}{
		"connection string": {map[string]string{"AzureWebJobsStorage": "DefaultEndpointsProtocol=https;AccountName=vault;AccountKey=" + someKey + ";EndpointSuffix=core.windows.net"},
			"AzureWebJobsStorage", vault, "https://vault.queue.core.windows.net/dead"},
		"shared access": {map[string]string{"Other": "BlobEndpoint=https://vault.blob.core.windows.net/;QueueEndpoint=https://vault.queue.core.windows.net/;SharedAccessSignature=sv=1&sig=x"},
			"Other", vault + "?sv=1&sig=x", "https://vault.queue.core.windows.net/dead?sv=1&sig=x"},
		"development": {map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true;"},
			"AzureWebJobsStorage", "http://127.0.0.1:10000/devstoreaccount1/dead", "http://127.0.0.1:10001/devstoreaccount1/dead"},
		"account name": {map[string]string{"AzureWebJobsStorage__accountName": "vault", "AzureWebJobsStorage__credential": "managedidentity"},
			"AzureWebJobsStorage", vault, "https://vault.queue.core.windows.net/dead"},
		"services": {map[string]string{"Other__blobServiceUri": "https://v.blob.core.chinacloudapi.cn/", "Other__queueServiceUri": "https://v.queue.core.chinacloudapi.cn", "Other__clientId": "1", "Other__credential": "managedidentity"},
			"Other", "https://v.blob.core.chinacloudapi.cn/dead", "https://v.queue.core.chinacloudapi.cn/dead"},
		"any case": {map[string]string{"OTHER__ACCOUNTNAME": "vault"}, "other", vault, "https://vault.queue.core.windows.net/dead"},
	} {
		t.Run(name, func(t *testing.T) {
			storageEnv(t, test.env)
			s, err := resolveStorage(test.connection, nil)
			if err != nil {
				t.Fatal(err)
			}
			blobs, err := s.blobContainer("dead")
			if err != nil {
				t.Fatal(err)
			}
			queue, err := s.queue("dead")
			if err != nil {
				t.Fatal(err)
			}
			if blobs.URL() != test.blobs || queue.URL() != test.queue {
				t.Errorf("%s and %s, want %s and %s", blobs.URL(), queue.URL(), test.blobs, test.queue)
			}
		})
	}
}

func TestStorageIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		env        map[string]string
		connection settings.ConnectionName
		says       []string
	}{
		"not set":          {nil, "AzureWebJobsStorage", []string{"AzureWebJobsStorage is not set", "AzureWebJobsStorage__accountName"}},
		"string as name":   {nil, "AccountName=a;AccountKey=" + someKey, []string{"name"}},
		"malformed":        {map[string]string{"Other": "nonsense"}, "Other", []string{"Other", "connection string"}},
		"key alone":        {map[string]string{"Other": "AccountKey=" + someKey}, "Other", []string{"Other", "AccountName"}},
		"key not base64":   {map[string]string{"Other": "AccountName=vault;AccountKey=not-base-64-" + someKey}, "Other", []string{"Other"}},
		"account name":     {map[string]string{"Other__accountName": "Vault_1"}, "Other", []string{"Other__accountName", "lower-case letters"}},
		"service URI":      {map[string]string{"Other__blobServiceUri": "http://x.example"}, "Other", []string{"Other__blobServiceUri", "https"}},
		"no queue service": {map[string]string{"Other__blobServiceUri": "https://v.blob.core.windows.net"}, "Other", []string{"Other__queueServiceUri"}},
		"unknown part":     {map[string]string{"Other__accountName": "vault", "Other__accountKey": someKey}, "Other", []string{"Other__accountKey is not known"}},
		"client id alone":  {map[string]string{"Other__accountName": "vault", "Other__clientId": "1"}, "Other", []string{"Other__credential=managedidentity"}},
	} {
		t.Run(name, func(t *testing.T) {
			storageEnv(t, test.env)
			_, err := openQueue("dead", deadletter.Connection{Name: string(test.connection)})
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

func TestStorageNames(t *testing.T) {
	for _, name := range []string{"dead-letters", "abc", "a1b", strings.Repeat("a", 63)} {
		if err := checkStorageName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "ab", "-abc", "a--b", "Abc", "abc-", strings.Repeat("a", 64)} {
		if err := checkStorageName(name); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

// A storage account, or an impostor, that answers an error without an end takes neither the
// memory nor the time of a host.
func TestErrorsOfTheAccountAreReadInPart(t *testing.T) {
	sent := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		for chunk := make([]byte, 1<<20); sent < 128<<20; sent += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	storageEnv(t, map[string]string{"Other": "AccountName=vault;AccountKey=" + someKey + ";BlobEndpoint=" + server.URL + "/;QueueEndpoint=" + server.URL + "/"})
	s, err := resolveStorage("Other", nil)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := s.blobContainer("dead")
	if err != nil {
		t.Fatal(err)
	}
	_, blobErr := blobs.NewBlobClient("x").DownloadStream(t.Context(), nil)
	queue, err := s.queue("dead")
	if err != nil {
		t.Fatal(err)
	}
	_, queueErr := queue.EnqueueMessage(t.Context(), "x", nil)
	server.Close()
	if blobErr == nil || queueErr == nil || sent > 64<<20 {
		t.Errorf("%d MB were read; blobs: %v, queue: %v", sent>>20, blobErr, queueErr)
	}
}
