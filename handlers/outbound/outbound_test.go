package outbound

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestDialledAddressesAreChecked(t *testing.T) {
	const (
		public = iota // may always be dialled
		local         // only if private targets are allowed
		never
	)
	tests := map[string]int{
		"8.8.8.8":                 public,
		"142.250.185.74":          public,
		"2607:f8b0:4005:805::200": public,
		"64:ff9b::808:808":        public,

		"127.0.0.1":      local,
		"127.8.8.8":      local,
		"::1":            local,
		"10.0.0.1":       local,
		"172.16.5.4":     local,
		"192.168.1.1":    local,
		"fd00::1":        local,
		"64:ff9b::a00:1": local,

		"::ffff:8.8.8.8":         never,
		"::ffff:10.0.0.1":        never,
		"::ffff:127.0.0.1":       never,
		"0.0.0.0":                never,
		"0.1.2.3":                never,
		"::":                     never,
		"::7f00:1":               never, // 127.0.0.1 in the deprecated compatible form
		"169.254.169.254":        never, // instance metadata
		"::ffff:169.254.169.254": never,
		"64:ff9b::a9fe:a9fe":     never,
		"168.63.129.16":          never, // Azure's platform
		"100.64.0.1":             never,
		"100.100.100.200":        never,
		"192.0.0.192":            never,
		"198.18.0.1":             never,
		"224.0.0.1":              never,
		"240.0.0.1":              never,
		"255.255.255.255":        never,
		"fe80::1":                never,
		"fe80::1%eth0":           never,
		"2607:f8b0::1%eth0":      never,
		"fec0::1":                never,
		"ff02::1":                never,
		"100::1":                 never,
		"4000::1":                never, // not assigned
		"5f00::1":                never,
		"2002:7f00:1::":          never, // 6to4 of 127.0.0.1
		"2001:0:1::1":            never, // Teredo
		"2001:db8::1":            never,
		"64:ff9b:1::1":           never,
	}
	for text, kind := range tests {
		ip := netip.MustParseAddr(text)
		for _, rules := range []Rules{{Hosts: []string{AnyHost}}, {Private: true}} {
			for port, allowed := range map[uint16]bool{
				443:  kind == public || kind == local && rules.Private,
				8443: kind == local && rules.Private,
			} {
				err := rules.control("tcp", netip.AddrPortFrom(ip, port).String(), nil)
				if (err == nil) != allowed || err != nil && !errors.Is(err, ErrRefused) {
					t.Errorf("%s, port %d, private %v: %v", ip, port, rules.Private, err)
				}
			}
		}
	}
	if err := (Rules{}).control("tcp", "name:443", nil); !errors.Is(err, ErrRefused) {
		t.Errorf("a name is dialled: %v", err)
	}
}

func TestURLsAreChecked(t *testing.T) {
	anyHost := Rules{Hosts: []string{AnyHost}}
	private := Rules{Hosts: []string{AnyHost}, Private: true}
	tests := []struct {
		url     string
		always  bool
		private bool
	}{
		{"https://push.example/a?b=c", true, true},
		{"https://push.example:443/a", true, true},
		{"https://push.example:8443/a", false, false},
		{"https://push.example:80/a", false, false},
		{"https://8.8.8.8/a", true, true},
		{"https://[::ffff:8.8.8.8]/a", false, false},
		{"https://[::ffff:169.254.169.254]/a", false, false},
		{"https://169.254.169.254/a", false, false},
		{"https://10.0.0.1/a", false, true},
		{"https://10.0.0.1:8443/a", false, true},
		{"https://localhost:8443/a", false, true},
		{"http://localhost:8080/a", false, true},
		{"http://127.0.0.1:8080/a", false, true},
		{"http://[::1]:8080/a", false, true},
		{"http://10.0.0.1/a", false, false},
		{"http://push.example/a", false, false},
		{"http://localhost.example/a", false, false},
		{"ftp://push.example/a", false, false},
		{"push.example/a", false, false},
		{"//push.example/a", false, false},
		{"https:push.example", false, false},
		{"https://user@push.example/a", false, false},
		{"https://", false, false},
		{"https://:443/", false, false},
		{"", false, false},
		{"https://push.example/" + strings.Repeat("x", maxURL), false, false},
		{"https://push.example/%zz", false, false},
		{"https://push.example:port/", false, false},
	}
	for _, tt := range tests {
		for rules, want := range map[*Rules]bool{&anyHost: tt.always, &private: tt.private, {}: false} {
			_, err := rules.Check(tt.url)
			if (err == nil) != want || err != nil && !errors.Is(err, ErrRefused) {
				t.Errorf("%.60s, %+v: %v", tt.url, *rules, err)
			}
		}
	}
}

func TestHostsLimitTargets(t *testing.T) {
	known := Rules{Hosts: []string{"fcm.googleapis.com", ".push.apple.com"}}
	for target, want := range map[string]bool{
		"https://fcm.googleapis.com/fcm/send/x":     true,
		"https://FCM.googleapis.com:443/x":          true,
		"https://web.push.apple.com/x":              true,
		"https://a.b.push.apple.com/x":              true,
		"https://push.apple.com/x":                  false,
		"https://evilpush.apple.com/x":              false,
		"https://evil.fcm.googleapis.com/x":         false,
		"https://fcm.googleapis.com./x":             false,
		"https://fcm.googleapis.com.evil.example/x": false,
		"https://evil.example/?fcm.googleapis.com":  false,
		"https://evil.example/#.push.apple.com":     false,
		`https://evil.example\.push.apple.com/`:     false,
		"https://localhost/":                        false,
		"https://127.0.0.1/":                        false,
	} {
		if _, err := known.Check(target); (err == nil) != want {
			t.Errorf("%s: %v", target, err)
		}
	}
}

func TestValidateNamesTheBadHost(t *testing.T) {
	for host, valid := range map[string]bool{
		"a.example": true, ".a.example": true, "*": true, "10.0.0.1": true,
		"": false, ".": false, "A.example": false, "https://a.example": false, "a.example:443": false, " a.example": false, "*.a.example": false, "u@a": false,
	} {
		err := Rules{Hosts: []string{"ok.example", host}}.Validate()
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), `"`+host+`"; write host names`) {
			t.Errorf("%q: %v", host, err)
		}
	}
}

// The address is checked when the name was resolved, so no name avoids the check.
func TestNamesOfPrivateAddressesAreRefused(t *testing.T) {
	client := Rules{Hosts: []string{AnyHost}}.Client(5 * time.Second)
	defer client.CloseIdleConnections()
	_, err := client.Get("https://localhost/secret")
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "which is not a public address") {
		t.Errorf("error is %v", err)
	}
}

func TestClientChecksEachRequest(t *testing.T) {
	client := Rules{Hosts: []string{"a.example"}}.Client(5 * time.Second)
	if _, err := client.Get("https://b.example/"); !errors.Is(err, ErrRefused) {
		t.Errorf("error is %v", err)
	}
}

func TestClientReadsBoundedAnswersAndFollowsNoRedirect(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, "/", http.StatusFound)
			return
		}
		_, _ = io.Copy(w, bytes.NewReader(make([]byte, 2*maxAnswer)))
	}))
	defer server.Close()
	client := Rules{Private: true}.Client(5 * time.Second)
	defer client.CloseIdleConnections()
	resp, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if read, err := io.ReadAll(resp.Body); err == nil || len(read) > maxAnswer {
		t.Errorf("read %d bytes, %v", len(read), err)
	}
	if resp, err = client.Get(server.URL + "/redirect"); err != nil || resp.StatusCode != http.StatusFound {
		t.Errorf("redirect: %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
}

func TestTimeoutEndsRequest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	client := Rules{Private: true}.Client(50 * time.Millisecond)
	defer client.CloseIdleConnections()
	if _, err := client.Get(server.URL); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("error is %v", err)
	}
}
