package handlers

import (
	"net"
	"net/netip"
	"strings"
)

// IsLoopback reports whether a host of a URL, an address or a Host header, with or without
// a port, names this machine by a name that no DNS server can redirect. If a web page
// reaches a port of this machine by DNS rebinding, its Host header names another.
func IsLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback() || strings.EqualFold(host, "localhost")
}
