package metrics

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Dashboard, alert rules and manual name only metrics that exist, and the manual names all.
func TestFilesNameTheMetrics(t *testing.T) {
	source, err := os.ReadFile("names.go")
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(`halley_[a-z_]+`)
	known := map[string]bool{}
	for _, name := range pattern.FindAllString(string(source), -1) {
		known[name] = true
	}
	if len(known) < 15 {
		t.Fatalf("names.go has %d names", len(known))
	}
	for _, path := range []string{"deploy/grafana/halley.json", "deploy/prometheus/alerts.yml", "docs/operations.md"} {
		text, err := os.ReadFile("../../../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, name := range pattern.FindAllString(string(text), -1) {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if base := strings.TrimSuffix(name, suffix); known[base] {
					name = base
				}
			}
			found[name] = true
			if !known[name] && name != "halley_lag_unknown_ranges" { // of the log alone
				t.Errorf("%s names %s, which is not a metric", path, name)
			}
		}
		for name := range known {
			if strings.HasPrefix(path, "docs/") && !found[name] {
				t.Errorf("%s does not explain %s", path, name)
			}
		}
	}
}
