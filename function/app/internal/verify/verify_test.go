package verify

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/function/app/internal/apptest"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// inAccount runs test with an embedded account in a bubble.
func inAccount(t *testing.T, test func(*testing.T, *emulator.Account)) {
	synctest.Test(t, func(t *testing.T) {
		account, err := emulator.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer account.Close()
		test(t, account)
	})
}

// options returns those of a run that creates its containers, whose requests pass through
// transport.
func options(t testing.TB, endpoint string, transport policy.Transporter) Options {
	t.Helper()
	key, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		t.Fatal(err)
	}
	meter := &Meter{}
	client, err := cosmos.NewClient(endpoint, key, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: transport, PerRetryPolicies: []policy.Policy{meter}, Retry: policy.RetryOptions{MaxRetries: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return Options{Client: client, Meter: meter, Run: "halley-verify-t", Create: true}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) Do(req *http.Request) (*http.Response, error) { return f(req) }

// verified fails unless all rows that could be verified are the same.
func verified(t *testing.T, report *Report, err error) {
	t.Helper()
	if err != nil || report.Code != CodeVerified {
		var text strings.Builder
		_ = report.Write(&text)
		t.Fatalf("code %d, error %v:\n%s", report.Code, err, text.String())
	}
}

func TestAllFactsAreTheSameOnTheEmbeddedAccount(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		o := options(t, account.Endpoint(), account)
		o.Limit, o.Record = 5000, true
		report, err := Run(t.Context(), o)
		verified(t, report, err)
		if report.Charged > DefaultLimit || report.Charged < 0.8*report.Estimated || report.Charged > 1.2*report.Estimated {
			t.Errorf("charged %.0f RU, said %.0f", report.Charged, report.Estimated)
		}
		if left := account.State().Databases; len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// The connections are in memory, so that the bubble need not wait for documents to expire.
func TestFactsAreTheSameOverHTTP(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		listener := apptest.ListenOnPipe()
		server := &http.Server{Handler: account}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(listener) }) // ends with the server
		defer serving.Wait()
		defer server.Close()
		client := &http.Client{Transport: &http.Transport{DialContext: listener.Dial}}
		defer client.CloseIdleConnections()
		report, err := Run(t.Context(), options(t, "http://127.0.0.1/", client))
		verified(t, report, err)
		if report.Charged < 0.8*report.Estimated || report.Charged > 1.2*report.Estimated {
			t.Errorf("charged %.0f RU, said %.0f", report.Charged, report.Estimated)
		}
	})
}
