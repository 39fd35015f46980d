package hosting

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"halley/function/app/internal/settings"
)

func TestFunctionsWithOtherBoundsShareNoHost(t *testing.T) {
	var f settings.Function
	f.MaxLeases = 3
	a := &App{Settings: &settings.Settings{}}
	a.groupOf(f, nil)
	f.MaxLeases = 4
	a.groupOf(f, nil)
	want := []int{3, 4}
	var got []int
	for _, g := range a.groups {
		got = append(got, g.options.MaxLeases)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("functions with other bounds share a host (-want +got):\n%s", diff)
	}
}
