package azure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"halley/trigger"
)

// TestStorageErrorsDoNotShowSharedAccessSignatures makes each operation of the
// stores fail in each way that puts the URL of the request into the error.
func TestStorageErrorsDoNotShowSharedAccessSignatures(t *testing.T) {
	const canary = "CANARYsignature"
	const token = "?sv=2024-11-04&sp=rwdl&sig=" + canary
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-ms-error-code", "AuthenticationFailed")
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, "<Error><Code>AuthenticationFailed</Code><Message>no access to http://%s%s with %s</Message></Error>", r.Host, r.URL, r.URL.RawQuery)
	}))
	defer echo.Close()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then is the end of the request noticed
		<-r.Context().Done()
	}))
	defer silent.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	options := azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}
	for name, service := range map[string]string{
		"refused":                 "http://" + closed.Addr().String(),
		"DNS":                     "https://no-such-account.invalid",
		"timeout":                 silent.URL,
		"403 with URL in answer":  echo.URL,
		"malformed, bad port":     "https://host:" + canary,
		"malformed, bad scheme":   "tcp://host",
		"malformed, control byte": "https://host/\x7f",
	} {
		t.Run(name, func(t *testing.T) {
			blobs, err := container.NewClientWithNoCredential(service+"/dead"+token, &container.ClientOptions{ClientOptions: options})
			if err != nil {
				t.Fatal(err)
			}
			messages, err := azqueue.NewQueueClientWithNoCredential(service+"/dead"+token, &azqueue.ClientOptions{ClientOptions: options})
			if err != nil {
				t.Fatal(err)
			}
			store, err := NewBlob(blobs, nil)
			if err != nil {
				t.Fatal(err)
			}
			queue, err := NewQueue(store, messages, nil)
			if err != nil {
				t.Fatal(err)
			}
			d := trigger.DeadLetter{Version: trigger.DeadLetterVersion, Kind: trigger.RecordDead, ID: "1", Function: "f", Account: of("f").Account, Database: of("f").Database, Container: of("f").Container, Key: `["k"]`, Document: []byte(`{}`), Time: time.Now()}
			for operation, try := range map[string]func(context.Context) error{
				"put":    func(ctx context.Context) error { return queue.Put(ctx, d) },
				"delete": func(ctx context.Context) error { return queue.Delete(ctx, d) },
				"holds":  func(ctx context.Context) error { _, err := queue.Holds(ctx, of("f"), d.Key); return err },
				"list": func(ctx context.Context) (err error) {
					for _, e := range trigger.AllDeadLetters(ctx, queue, dead("f")) {
						err = errors.Join(err, e)
					}
					return err
				},
				"open": func(ctx context.Context) error {
					_, _, err := queue.Open(ctx, []byte(`{"id":"1","function":"f","key":"k"}`))
					return err
				},
				"send": func(ctx context.Context) error { return queue.notify(ctx, d) },
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				err := try(ctx)
				cancel()
				if err == nil {
					t.Errorf("%s: no error", operation)
				} else if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, canary) {
					t.Errorf("%s shows the token: %s", operation, text)
				}
			}
		})
	}
}
