package tests

import (
	"encoding/json"
	"testing"
)

// halley dev is the command that new users run first.
func TestDevLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes five seconds")
	}
	t.Parallel()
	stdout, stderr, code := command(t, nil, "dev", "--for", "5s", "--split-after", "2s", "--hosts", "3", "--json")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	var summary struct {
		Written, Delivered, Lost, Hosts, Splits int
		Ranges                                  []json.RawMessage
	}
	if err := json.Unmarshal([]byte(stdout), &summary); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	t.Logf("%d written, %d delivered, %d lost, %d splits", summary.Written, summary.Delivered, summary.Lost, summary.Splits)
	if summary.Lost != 0 || summary.Written < 200 || summary.Delivered < summary.Written || summary.Hosts != 3 || summary.Splits == 0 || len(summary.Ranges) == 0 {
		t.Errorf("summary %s", stdout)
	}
}
