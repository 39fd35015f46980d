package functions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"halley/function/app/internal/hosting"
)

func TestParseTimeSpan(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"00:05:00":         5 * time.Minute,
		"00:30:00":         30 * time.Minute,
		"01:00":            time.Hour,
		"1.02:03:04":       26*time.Hour + 3*time.Minute + 4*time.Second,
		"00:00:01.5":       1500 * time.Millisecond,
		"00:00:00.0000001": 100 * time.Nanosecond,
		"0:0:9":            9 * time.Second,
	} {
		if got, err := parseTimeSpan(in); err != nil || got != want {
			t.Errorf("parseTimeSpan(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "5", "5m", "-00:05:00", "00:00:00", "00:05:00.", "a:b:c", "00:05:00 "} {
		if got, err := parseTimeSpan(in); err == nil {
			t.Errorf("parseTimeSpan(%q) = %v, want an error", in, got)
		}
	}
}

func TestFunctionTimeout(t *testing.T) {
	for _, test := range []struct {
		name, host, override string
		want                 time.Duration
		source, err          string
	}{
		{name: "no host.json", want: 5 * time.Minute, source: "default"},
		{name: "no key", host: `{"version":"2.0"}`, want: 5 * time.Minute, source: "default"},
		{name: "host.json", host: `{"functionTimeout":"00:10:00"}`, want: 10 * time.Minute, source: "host.json"},
		{name: "override", host: `{"functionTimeout":"00:10:00"}`, override: "00:01:00", want: time.Minute, source: timeoutOverride},
		{name: "unbounded", host: `{"functionTimeout":"-1"}`, want: 30 * time.Minute, source: "host.json"},
		{name: "malformed", host: `{"functionTimeout":"ten"}`, want: 5 * time.Minute, source: "default", err: "hh:mm:ss"},
		{name: "not JSON", host: `{`, want: 5 * time.Minute, source: "default", err: "host.json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("FUNCTIONS_APP_ROOT_PATH", dir)
			t.Setenv(timeoutOverride, test.override)
			if test.host != "" {
				if err := os.WriteFile(filepath.Join(dir, "host.json"), []byte(test.host), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, source, err := functionTimeout()
			if got != test.want || filepath.Base(source) != test.source {
				t.Errorf("functionTimeout() = %v from %s, want %v from %s", got, source, test.want, test.source)
			}
			if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

func TestAppRoot(t *testing.T) {
	t.Setenv("FUNCTIONS_APP_ROOT_PATH", "")
	t.Setenv("AzureWebJobsScriptRoot", "")
	if got := appRoot(); got != "." {
		t.Errorf("appRoot() = %q without a host, want the working directory", got)
	}
	t.Setenv("AzureWebJobsScriptRoot", "/home/site/wwwroot")
	if got := appRoot(); got != "/home/site/wwwroot" {
		t.Errorf("appRoot() = %q, want AzureWebJobsScriptRoot", got)
	}
	t.Setenv("FUNCTIONS_APP_ROOT_PATH", "/app")
	if got := appRoot(); got != "/app" {
		t.Errorf("appRoot() = %q, want FUNCTIONS_APP_ROOT_PATH first", got)
	}
}

func TestMargin(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{
		10 * time.Second: 2 * time.Second,
		5 * time.Minute:  30 * time.Second,
		time.Hour:        30 * time.Second,
	} {
		if got := hosting.Margin(limit); got != want {
			t.Errorf("margin(%v) = %v, want %v", limit, got, want)
		}
	}
}
