package connection

import (
	"net"
	"strings"
)

// IsLoopback reports whether a Host header names this machine. If a web page
// reaches this port by DNS rebinding, its Host header names another.
func IsLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
