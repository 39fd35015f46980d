package push

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"halley/handlers/app"
)

func TestDialledAddressesAreChecked(t *testing.T) {
	const (
		public   = iota // may always be dialled
		private         // only if private endpoints are allowed
		reserved        // never
	)
	tests := map[string]int{
		"8.8.8.8":                 public,
		"142.250.185.74":          public,
		"2607:f8b0:4005:805::200": public,
		"::ffff:8.8.8.8":          public,
		"64:ff9b::808:808":        public,

		"127.0.0.1":        private,
		"127.8.8.8":        private,
		"::1":              private,
		"10.0.0.1":         private,
		"172.16.5.4":       private,
		"192.168.1.1":      private,
		"fd00::1":          private,
		"::ffff:10.0.0.1":  private,
		"64:ff9b::a00:1":   private,
		"::ffff:127.0.0.1": private,

		"0.0.0.0":                reserved,
		"0.1.2.3":                reserved,
		"::":                     reserved,
		"::7f00:1":               reserved, // 127.0.0.1 in the deprecated compatible form
		"169.254.169.254":        reserved, // instance metadata
		"::ffff:169.254.169.254": reserved,
		"64:ff9b::a9fe:a9fe":     reserved,
		"168.63.129.16":          reserved, // Azure's platform
		"100.64.0.1":             reserved,
		"100.100.100.200":        reserved,
		"192.0.0.192":            reserved,
		"198.18.0.1":             reserved,
		"224.0.0.1":              reserved,
		"240.0.0.1":              reserved,
		"255.255.255.255":        reserved,
		"fe80::1":                reserved,
		"fe80::1%eth0":           reserved,
		"fec0::1":                reserved,
		"ff02::1":                reserved,
		"2002:7f00:1::":          reserved, // 6to4 of 127.0.0.1
		"2001:0:1::1":            reserved, // Teredo
		"2001:db8::1":            reserved,
		"64:ff9b:1::1":           reserved,
	}
	for text, kind := range tests {
		ip := netip.MustParseAddr(text)
		if got := (endpoints{}).allowed(ip); got != (kind == public) {
			t.Errorf("%s is allowed: %v", ip, got)
		}
		if got := (endpoints{private: true}).allowed(ip); got != (kind != reserved) {
			t.Errorf("%s is allowed with private endpoints: %v", ip, got)
		}
	}
}

func TestEndpointURLsAreChecked(t *testing.T) {
	tests := []struct {
		endpoint string
		always   bool
		private  bool
	}{
		{"https://push.example/a?b=c", true, true},
		{"https://push.example:8443/a", true, true},
		{"https://10.0.0.1/a", true, true}, // refused when it is dialled
		{"http://localhost:8080/a", false, true},
		{"http://127.0.0.1:8080/a", false, true},
		{"http://[::1]:8080/a", false, true},
		{"http://10.0.0.1/a", false, false},
		{"http://push.example/a", false, false},
		{"http://localhost.example/a", false, false},
		{"ftp://push.example/a", false, false},
		{"push.example/a", false, false},
		{"//push.example/a", false, false},
		{"https://user@push.example/a", false, false},
		{"https://", false, false},
		{"", false, false},
		{"https://push.example/" + strings.Repeat("x", 2048), false, false},
		{"https://push.example/%zz", false, false},
	}
	for _, tt := range tests {
		if _, err := (endpoints{}).check(tt.endpoint); (err == nil) != tt.always {
			t.Errorf("%s: %v", tt.endpoint, err)
		}
		if _, err := (endpoints{private: true}).check(tt.endpoint); (err == nil) != tt.private {
			t.Errorf("%s with private endpoints: %v", tt.endpoint, err)
		}
	}
}

func TestEndpointHostsLimitPushServices(t *testing.T) {
	known := endpoints{hosts: []string{"fcm.googleapis.com", ".push.apple.com"}}
	tests := map[string]bool{
		"https://fcm.googleapis.com/fcm/send/x":     true,
		"https://FCM.googleapis.com:443/x":          true,
		"https://web.push.apple.com/x":              true,
		"https://push.apple.com/x":                  false,
		"https://evilpush.apple.com/x":              false,
		"https://evil.fcm.googleapis.com/x":         false,
		"https://fcm.googleapis.com.evil.example/x": false,
		"https://evil.example/?fcm.googleapis.com":  false,
		"https://evil.example/#.push.apple.com":     false,
	}
	for endpoint, want := range tests {
		if _, err := known.check(endpoint); (err == nil) != want {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// The address is checked when the name was resolved, so no name avoids the check.
func TestNamesOfPrivateAddressesAreRefused(t *testing.T) {
	for _, allow := range []bool{false, true} {
		_, from, device := newService(t, func(s *Settings) { s.AllowPrivateEndpoints = app.Toggle(allow) })
		device.Endpoint = strings.Replace(device.Endpoint, "http://127.0.0.1", "https://localhost", 1)
		err := from.send(t.Context(), sample, device)
		if err == nil || errors.Is(err, errUnusable) == allow {
			t.Errorf("private endpoints allowed: %v, error is %v", allow, err)
		}
		if !allow && (!strings.Contains(err.Error(), "which is not a public address") || strings.Contains(err.Error(), "/push/")) {
			t.Errorf("error is %v", err)
		}
	}
}
