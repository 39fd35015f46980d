package leases

import (
	"strings"
	"testing"
)

// An export that is damaged is refused before it is planned.
func TestDamagedExportIsRefused(t *testing.T) {
	for raw, want := range map[string]string{
		`{"format":"halley-leases/1","leases":[]}`:              "no leases",
		`{"format":"halley-leases/2","leases":[{"range":"0"}]}`: `format "halley-leases/2"`,
		`{"format":`: "read lease export",
	} {
		if _, err := ReadExport([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", raw, err, want)
		}
	}
	if e, err := ReadExport([]byte(`{"format":"halley-leases/1","leases":[{"range":"0"}]}`)); err != nil || len(e.Leases) != 1 {
		t.Errorf("%+v: %v", e, err)
	}
}
