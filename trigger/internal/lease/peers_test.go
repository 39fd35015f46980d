package lease

import (
	"testing"
	"time"

	"halley/trigger/cosmos"
)

func TestOtherHostHoldsOrRequestsLease(t *testing.T) {
	const expiration = time.Minute
	now := time.Now()
	tests := map[string]struct {
		lease *Lease
		want  bool
	}{
		"free":                            {&Lease{written: now}, false},
		"of this host":                    {&Lease{owner: "a", written: now}, false},
		"of another host":                 {&Lease{owner: "b", written: now}, true},
		"of another host, expired":        {&Lease{owner: "b", written: now.Add(-2 * expiration)}, false},
		"free, requested by another":      {withHandoverRequest(&Lease{written: now, properties: map[string]string{}}, "b", now), true},
		"free, requested by this host":    {withHandoverRequest(&Lease{written: now, properties: map[string]string{}}, "a", now), false},
		"free, requested a long time ago": {withHandoverRequest(&Lease{written: now.Add(-expiration), properties: map[string]string{}}, "b", now.Add(-expiration)), false},
	}
	for name, test := range tests {
		client, err := cosmos.NewClient("https://account.documents.azure.com:443/", testCredential(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		s := NewSet(Config{Leases: client.Container("db", "leases"), Owner: "a", Expiration: expiration})
		if got := s.HasOtherHosts([]*Lease{{written: now}, test.lease}); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func testCredential(t *testing.T) cosmos.Credential {
	t.Helper()
	credential, err := cosmos.KeyCredential("a2V5")
	if err != nil {
		t.Fatal(err)
	}
	return credential
}
