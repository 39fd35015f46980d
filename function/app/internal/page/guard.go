package page

import (
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
)

// securityPolicy allows the page's own files, and nothing inline. Trusted types make
// innerHTML throw.
const securityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// ServeHTTP implements [http.Handler].
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", securityPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if !hostAllowed(r.Host) {
		refuse(w, http.StatusForbidden, failure{"host", "the page does not answer under the name " + r.Host, "open it by the address that the process prints"})
		return
	}
	if err := p.origins.Check(r); err != nil {
		refuse(w, http.StatusForbidden, failure{"origin", err.Error(), "open the page itself"})
		return
	}
	if r.URL.Query().Has("token") && r.Method == http.MethodGet {
		p.signIn(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !p.hasToken(r) {
		refuse(w, http.StatusUnauthorized, failure{"token", "actions need the token of this process", "open the address that the process printed when it started"})
		return
	}
	p.mux.ServeHTTP(w, r)
}

// signIn turns the token of the printed address into a cookie, so that it stays neither
// in the address bar nor in the history.
func (p *Page) signIn(w http.ResponseWriter, r *http.Request) {
	if !p.isToken(r.URL.Query().Get("token")) {
		refuse(w, http.StatusForbidden, failure{"token", "this is not the token of this process", "open the address that the process printed when it started"})
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: p.options.Token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.Header().Set("Location", "./")
	w.WriteHeader(http.StatusSeeOther)
}

// cookieName has the port, because browsers send cookies to all ports of a host.
func cookieName(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	return "halley-page-" + port
}

func (p *Page) hasToken(r *http.Request) bool {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return p.isToken(bearer)
	}
	cookie, err := r.Cookie(cookieName(r))
	return err == nil && p.isToken(cookie.Value)
}

func (p *Page) isToken(text string) bool {
	return subtle.ConstantTimeCompare([]byte(text), []byte(p.options.Token)) == 1
}

// hostAllowed reports whether a Host header names this machine by a name that no DNS
// server can redirect.
func hostAllowed(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}
