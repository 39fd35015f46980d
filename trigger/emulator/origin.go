package emulator

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// checkOrigin fails if a request may come from a web page. The account's key is
// public, so that any page could sign requests: a browser names the page's origin
// in Origin, and after DNS rebinding the page's own host in Host. Requests in
// process have no Host to check.
func (a *Account) checkOrigin(req *http.Request) error {
	if origin := req.Header.Get("Origin"); origin != "" {
		return fail(http.StatusForbidden, 0, "Web pages may not use the emulator: the request has the Origin %q.", origin)
	}
	if req.RemoteAddr != "" && !a.hostAllowed(req.Host) {
		return fail(http.StatusForbidden, 0, "The emulator does not answer as %q: use localhost or an IP address, or allow the name (halley emulator --allow-host).", req.Host)
	}
	return nil
}

// hostAllowed reports whether clients may address the account by a Host header. An
// IP address always is allowed: no DNS server can make it another's.
func (a *Account) hostAllowed(host string) bool {
	name := hostName(host)
	if served := a.served.Load(); served != nil && name == served.advertised && name != "" {
		return true
	}
	return name == "localhost" || net.ParseIP(name) != nil || slices.ContainsFunc(a.options.Hosts, func(allowed string) bool {
		return strings.EqualFold(allowed, name)
	})
}

// hostName is host without its port, in lower case.
func hostName(host string) string {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	name, _, _ = strings.Cut(name, "%") // the zone of an IPv6 address
	return strings.ToLower(name)
}

// loopbackName reports whether host, with or without port, names this machine.
func loopbackName(host string) bool {
	name := hostName(host)
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// advertised returns an endpoint that the caller of req can reach: [ServeOptions.Advertise],
// or the host that the caller has used, which may be that of a proxy.
func (a *Account) advertised(req *http.Request) string {
	served := a.served.Load()
	if req.RemoteAddr == "" || req.Host == "" || served != nil && served.advertised != "" {
		return a.Endpoint()
	}
	scheme := "http"
	if req.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + req.Host + "/"
}
