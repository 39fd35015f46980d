package hosting

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"halley/function/app/internal/settings"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// Functions share a host if it would be the same for each: in its bounds, and in the client
// of its leases, which has the regions and the priority of their requests.
func TestFunctionsWithOtherBoundsShareNoHost(t *testing.T) {
	var f settings.Function
	f.MaxLeases = 3
	a := &App{Settings: &settings.Settings{}}
	leases, leasesOfLowPriority := leasesOfOwnClient(t), leasesOfOwnClient(t)
	for range 2 {
		a.groupOf(f, leases)
	}
	f.MaxLeases = 4
	a.groupOf(f, leases)
	a.groupOf(f, leasesOfLowPriority)
	want := []int{3, 4, 4}
	var got []int
	for _, g := range a.groups {
		got = append(got, g.options.MaxLeases)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("functions with other bounds share a host (-want +got):\n%s", diff)
	}
}

func leasesOfOwnClient(t *testing.T) *cosmos.Container {
	t.Helper()
	credential, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := cosmos.NewClient("https://localhost:8081", credential, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client.Container("db", "leases")
}
