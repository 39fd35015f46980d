package account_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"halley/function/app/internal/account"
	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosttest"
	"halley/trigger/cosmos"
)

// sentHeaders refuses each request, and notes its share.
type sentHeaders []string

func (s *sentHeaders) Do(req *http.Request) (*http.Response, error) {
	*s = append(*s, fmt.Sprint(req.Header.Get("x-ms-cosmos-priority-level"), " ", req.Header.Get("x-ms-cosmos-throughput-bucket")))
	return &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// The feed and the leases have each a priority and a throughput bucket. Without a difference
// they share a client.
func TestRequestsHaveTheirShare(t *testing.T) {
	for _, test := range []struct {
		settings     []string
		feed, leases string
	}{
		{nil, " ", " "},
		{[]string{"HALLEY_PRIORITY", "low", "HALLEY_LEASE_PRIORITY", "HIGH"}, "Low ", "High "},
		{[]string{"HALLEY_THROUGHPUT_BUCKET", "2", "HALLEY_LEASE_THROUGHPUT_BUCKET", "5"}, " 2", " 5"},
		{[]string{"HALLEY_PRIORITY", "Low", "HALLEY_LEASE_PRIORITY", "low"}, "Low ", "Low "},
	} {
		s, err := hosttest.Load(t, apptest.Complete(append(test.settings, "CosmosDB", "emulator")...))
		if err != nil {
			t.Fatal(err)
		}
		sent := &sentHeaders{}
		at, err := account.NewClients(sent).Open(s.Functions[0])
		if err != nil {
			t.Fatal(err)
		}
		for container, want := range map[*cosmos.Container]string{at.Monitored: test.feed, at.Leases: test.leases} {
			*sent = nil
			if _, err := container.Read(t.Context(), "id", cosmos.NewPartitionKey("id")); err == nil || len(*sent) == 0 || strings.Join(*sent, ",") != strings.Repeat(want+",", len(*sent)-1)+want {
				t.Errorf("%v: requests have the shares %q, want %q", test.settings, *sent, want)
			}
		}
		if shares := at.Monitored.Client() == at.Leases.Client(); shares != (test.feed == test.leases) {
			t.Errorf("%v: one client: %v", test.settings, shares)
		}
	}
}

func TestSharesAreRefused(t *testing.T) {
	for setting, want := range map[string]string{
		"HALLEY_PRIORITY=medium":           `HALLEY_PRIORITY="medium": not a priority: write low or high`,
		"HALLEY_THROUGHPUT_BUCKET=6":       `HALLEY_THROUGHPUT_BUCKET="6": not the number of a throughput bucket: write 1 to 5, or 0 for none`,
		"HALLEY_LEASE_THROUGHPUT_BUCKET=x": "write 1 to 5",
	} {
		name, value, _ := strings.Cut(setting, "=")
		if _, err := hosttest.Load(t, apptest.Complete(name, value, "CosmosDB", "emulator")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", setting, err, want)
		}
	}
}
