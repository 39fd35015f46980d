package push

import (
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

// endpoints decides which endpoints are allowed. Players can write endpoints into
// documents, so a request to one must not reach the network of this host.
type endpoints struct {
	private bool     // private and loopback addresses are allowed, and http on loopback
	hosts   []string // of push services; if one begins with a dot, it stands for all hosts below; empty: any
}

// maxEndpoint is longer than any push service's endpoints, and short enough for
// every server.
const maxEndpoint = 2048

// check parses an endpoint. It returns an error if the endpoint is not allowed
// for any address that its host may resolve to.
func (e endpoints) check(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	switch {
	case len(endpoint) > maxEndpoint:
		return nil, fmt.Errorf("endpoint has %d bytes, more than %d", len(endpoint), maxEndpoint)
	case err != nil || u.Host == "":
		return nil, errors.New("endpoint is not a URL with a host")
	case u.User != nil:
		return nil, errors.New("endpoint holds a user name")
	case !e.knows(strings.ToLower(u.Hostname())):
		return nil, fmt.Errorf("its host %s is not one of ENDPOINT_HOSTS", u.Hostname())
	case u.Scheme == "https", u.Scheme == "http" && e.private && isLoopback(u.Hostname()):
		return u, nil
	}
	return nil, fmt.Errorf("endpoint is not an https URL but %q", u.Scheme)
}

func (e endpoints) knows(host string) bool {
	return len(e.hosts) == 0 || slices.ContainsFunc(e.hosts, func(known string) bool {
		return host == known || strings.HasPrefix(known, ".") && strings.HasSuffix(host, known)
	})
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// client returns a client that checks each address after name resolution, when
// it dials. It follows no redirects and uses no proxy, because a proxy would dial
// unchecked, and it reads no more of an answer than its caller does.
func (e endpoints) client(timeout time.Duration) *http.Client {
	dialer := &net.Dialer{Timeout: timeout, Control: e.control}
	return &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSHandshakeTimeout:    timeout,
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConnsPerHost:    parallel,
			MaxIdleConns:           8 * parallel,
			IdleConnTimeout:        90 * time.Second,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
		},
	}
}

func (e endpoints) control(_, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: dialled address %q is not an IP address", errUnusable, address)
	}
	if !e.allowed(target.Addr()) {
		return fmt.Errorf("%w: its host resolves to %s, which is not a public address", errUnusable, target.Addr())
	}
	return nil
}

func (e endpoints) allowed(ip netip.Addr) bool {
	ip = embedded(ip)
	if e.private && (ip.IsLoopback() || ip.IsPrivate()) {
		return true
	}
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return false
	}
	for _, r := range reserved {
		if r.Contains(ip) {
			return false
		}
	}
	return true
}

// nat64 is the well-known prefix for IPv4 addresses in IPv6 (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// embedded returns the IPv4 address in an IPv6 address, or ip if there is none.
func embedded(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if !nat64.Contains(ip) {
		return ip
	}
	b := ip.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

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
	netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("3fff::/20"),
	netip.MustParsePrefix("5f00::/16"),
	netip.MustParsePrefix("fec0::/10"),
}
