// Package outbound sends HTTP requests of handlers to URLs that users of the
// application supply, such as the endpoints of push subscriptions and webhooks.
// A user must not reach the network of the host with them.
//
// [Rules] are checked twice. [Rules.Check] refuses a URL by its text; the client
// of [Rules.Client] repeats that for each request, and checks the address after
// name resolution, when it dials, so a host name cannot avoid the rules. Every
// refusal is an [ErrRefused]: the URL can never work, and no retry helps.
//
//   - The host is one of [Rules].Hosts.
//   - The scheme is https and the port 443.
//   - The address is public: not loopback, private, link-local, multicast or
//     reserved, and not an IPv4 address that is mapped into IPv6.
//
// The client follows no redirects, because their target is not checked by the
// caller, and uses no proxy, because a proxy would dial unchecked. It reads at
// most 64 KiB of headers and 1 MiB of an answer.
//
// Errors of the client hold the URL. If the path is a secret, as that of a push
// endpoint is, the caller must remove it.
package outbound

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrRefused reports that the rules do not allow a URL or the address that its
// host resolves to. Nothing was sent. Test with [errors.Is].
var ErrRefused = errors.New("not allowed as a target")

// AnyHost in [Rules].Hosts stands for every host with a public address.
const AnyHost = "*"

// Rules say which URLs may be called. The zero value allows none.
type Rules struct {
	// Hosts are the names of the allowed hosts, in lower case. A name that begins
	// with a dot stands for all hosts below it, but not for the name itself.
	Hosts []string

	// Private is for development. It allows loopback and private addresses on any
	// port, without an entry in Hosts if the URL has the address or "localhost",
	// and plain http on loopback.
	Private bool
}

// Validate returns an error that names the first entry of Hosts that is not in
// the right form.
func (r Rules) Validate() error {
	for _, host := range r.Hosts {
		if host != AnyHost && (strings.Trim(host, ".") == "" || host != strings.ToLower(host) || strings.ContainsAny(host, "/: *@")) {
			return fmt.Errorf("%q; write host names in lower case, without scheme, port and spaces, or %s for any public host", host, AnyHost)
		}
	}
	return nil
}

// maxURL is longer than the endpoints of all push services, and short enough for
// every server.
const maxURL = 2048

// Check parses a URL, and returns an ErrRefused if it is not allowed for any
// address that its host may resolve to. The error does not show the URL, except
// for its host and scheme.
func (r Rules) Check(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, refuse("it has %d bytes, more than %d", len(raw), maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, refuse("it is not a URL")
	}
	return u, r.checkURL(u)
}

func (r Rules) checkURL(u *url.URL) error {
	host := strings.ToLower(u.Hostname())
	ip, err := netip.ParseAddr(host)
	literal := err == nil
	local := r.allowsLocal(host, ip)
	switch {
	case host == "":
		return refuse("it has no host")
	case u.User != nil:
		return refuse("it holds a user name")
	case !local && !r.allowsHost(host):
		return refuse("its host %s is not an allowed one", host)
	case literal && !r.allowsAddress(ip):
		return refuse("its host %s is not a public address", host)
	case !local && u.Port() != "" && u.Port() != "443":
		return refuse("its port is %s, not 443", u.Port())
	case u.Scheme == "https", u.Scheme == "http" && local && (!literal || ip.IsLoopback()):
		return nil
	}
	return refuse("its scheme is %q, not https", u.Scheme)
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)
}

// allowsLocal reports whether the host is this machine or its network, and allowed. ip is
// not valid if the host is a name.
func (r Rules) allowsLocal(host string, ip netip.Addr) bool {
	return r.Private && (host == "localhost" || ip.IsValid() && isLocal(ip))
}

func (r Rules) allowsHost(host string) bool {
	return slices.ContainsFunc(r.Hosts, func(allowed string) bool {
		return allowed == AnyHost || host == allowed || strings.HasPrefix(allowed, ".") && strings.HasSuffix(host, allowed)
	})
}

// Limits of an answer.
const (
	maxHeaders = 64 << 10
	maxAnswer  = 1 << 20
)

// Connections are the options of [Rules.ClientOf].
type Connections struct {
	Timeout time.Duration // of a request, with its answer
	Most    int           // connections to one host; 0 is no bound
	TLS     *tls.Config   // nil trusts the certificates of the system
}

// Client returns a client that obeys the rules. A request takes at most the
// timeout, with its answer. The client is safe for concurrent use; the caller
// closes its idle connections.
func (r Rules) Client(timeout time.Duration) *http.Client {
	return r.ClientOf(Connections{Timeout: timeout})
}

// ClientOf is [Rules.Client] with options for connections.
func (r Rules) ClientOf(c Connections) *http.Client {
	timeout := c.Timeout
	dialer := &net.Dialer{Timeout: timeout, Control: r.control}
	return &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &Transport{rules: r, Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        c.TLS,
			TLSHandshakeTimeout:    timeout,
			MaxResponseHeaderBytes: maxHeaders,
			MaxConnsPerHost:        c.Most,
			MaxIdleConnsPerHost:    max(c.Most, 8),
			MaxIdleConns:           64,
			IdleConnTimeout:        90 * time.Second,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
		}},
	}
}

// Transport checks each request. It is the transport of [Rules.Client].
type Transport struct {
	*http.Transport
	rules Rules
}

// RoundTrip returns an ErrRefused if the rules do not allow the URL. If the
// answer has more than 1 MiB, reading its body ends with an error.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.rules.checkURL(req.URL); err != nil {
		return nil, err
	}
	resp, err := t.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	return resp, nil
}

// control is called with the address of each connection before it is dialled.
func (r Rules) control(_, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return refuse("the dialled address %q is not an IP address", address)
	}
	if !r.allowsAddress(target.Addr()) {
		return refuse("its host resolves to %s, which is not a public address", target.Addr())
	}
	if target.Port() != 443 && !(r.Private && isLocal(target.Addr())) {
		return refuse("the dialled port is %d, not 443", target.Port())
	}
	return nil
}

func (r Rules) allowsAddress(ip netip.Addr) bool {
	return isPublic(ip) || r.Private && isLocal(ip)
}

// isLocal reports whether an address is a loopback or private one, also if NAT64
// translates it.
func isLocal(ip netip.Addr) bool {
	if ip.Is4In6() {
		return false
	}
	ip = translated(ip)
	return ip.IsLoopback() || ip.IsPrivate()
}

// isPublic reports whether an address is globally reachable. An IPv4 address that
// is mapped into IPv6 (::ffff:0:0/96) is not: such an address never occurs on the
// network, and hosts differ in how they treat it.
func isPublic(ip netip.Addr) bool {
	if ip.Is4In6() || ip.Zone() != "" {
		return false
	}
	ip = translated(ip)
	if ip.Is6() && !globalUnicast.Contains(ip) {
		return false
	}
	return ip.IsGlobalUnicast() && !ip.IsPrivate() &&
		!slices.ContainsFunc(reserved, func(r netip.Prefix) bool { return r.Contains(ip) })
}

// nat64 is the well-known prefix for IPv4 addresses in IPv6 (RFC 6052). The
// network of the host translates such an address to the IPv4 address in it.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// translated returns the IPv4 address that NAT64 makes of ip, or ip itself.
func translated(ip netip.Addr) netip.Addr {
	if !nat64.Contains(ip) {
		return ip
	}
	b := ip.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// globalUnicast is the only space from which public IPv6 addresses are assigned:
// https://www.iana.org/assignments/ipv6-address-space
var globalUnicast = netip.MustParsePrefix("2000::/3")

// reserved are the unicast ranges that are not globally reachable, apart from
// private, loopback and link-local ones: IANA's special-purpose address
// registries for IPv4 and IPv6, and Azure's platform address
// (https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16).
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("3fff::/20"),
}
