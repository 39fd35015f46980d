package page

import (
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/handlers"
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
	if !p.options.Private && !handlers.IsLoopback(r.Host) {
		refuse(w, http.StatusForbidden, failure{"host", "the page does not answer under the name " + r.Host, "open it by the address that the process prints"})
		return
	}
	if err := p.origins.Check(r); err != nil {
		refuse(w, http.StatusForbidden, failure{"origin", err.Error(), "open the page itself"})
		return
	}
	if r.URL.Query().Has("token") && r.Method == http.MethodGet || r.URL.Path == signInPath && r.Method == http.MethodPost {
		p.signIn(w, r)
		return
	}
	if p.needsToken(r) && !p.hasToken(r) {
		if tokenOf(r) != "" {
			p.delayWrongToken(r)
		}
		p.refuseWithoutToken(w, r)
		return
	}
	p.mux.ServeHTTP(w, r)
}

// signInPath takes the token from a form.
const signInPath = "/sign-in"

// needsToken reports whether a request reads or changes data that the token protects.
func (p *Page) needsToken(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return true
	}
	return p.options.Private && r.URL.Path != "/page.css" && r.URL.Path != signInPath
}

// whereIsTheToken is the next step of a viewer without the token.
const whereIsTheToken = "open the address that the process printed when it started, or sign in with HALLEY_PAGE_TOKEN"

func (p *Page) refuseWithoutToken(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		refuse(w, http.StatusUnauthorized, failure{"token", "this needs the token of the page", whereIsTheToken})
		return
	}
	p.showSignIn(w, r, http.StatusUnauthorized, "")
}

// signIn turns the token of the printed address, or of the form, into a cookie, so that
// it stays neither in the address bar nor in the history. The cookie is for the page's
// own path, as browsers take it from the request.
func (p *Page) signIn(w http.ResponseWriter, r *http.Request) {
	token := r.URL.Query().Get("token")
	if r.Method == http.MethodPost {
		token = formOf(w, r).Get("token")
	}
	if !p.isToken(token) {
		p.delayWrongToken(r)
		if r.Method == http.MethodPost {
			p.showSignIn(w, r, http.StatusForbidden, "This is not the token of the page.")
			return
		}
		refuse(w, http.StatusForbidden, failure{"token", "this is not the token of the page", whereIsTheToken})
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: p.options.Token, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.Header.Get("X-Forwarded-Proto") == "https",
	})
	w.Header().Set("Location", "./"+filtersOf(r))
	w.WriteHeader(http.StatusSeeOther)
}

// filtersOf is the query of an address without the token. It begins with a question mark, so that
// no address that is made of it leaves the page.
func filtersOf(r *http.Request) string {
	q := r.URL.Query()
	q.Del("token")
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// cookieName has the port, because browsers send cookies to all ports of a host.
func cookieName(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	return "halley-page-" + port
}

func (p *Page) hasToken(r *http.Request) bool { return p.isToken(tokenOf(r)) }

// tokenOf returns the token of a request that does not sign in, "" if it has none.
func tokenOf(r *http.Request) string {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return bearer
	}
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		return cookie.Value
	}
	return ""
}

func (p *Page) isToken(text string) bool {
	return subtle.ConstantTimeCompare([]byte(text), []byte(p.options.Token)) == 1
}

const (
	// wrongTokenDelay is the wait before the answer to a wrong token: a connection makes one
	// guess a second. A right token does not wait.
	wrongTokenDelay = time.Second
	// wrongTokenLog is the least time between two log lines about wrong tokens.
	wrongTokenLog = time.Minute
)

// wrongTokens counts the wrong tokens that no log line has told of. mu guards the fields.
type wrongTokens struct {
	mu       sync.Mutex
	untold   int
	lastTold time.Time
}

// addToken counts one, and returns how many a log line has to tell of now, 0 if none.
func (c *wrongTokens) addToken(now time.Time) (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.untold++
	if !c.lastTold.IsZero() && now.Sub(c.lastTold) < wrongTokenLog {
		return 0
	}
	count, c.untold, c.lastTold = c.untold, 0, now
	return count
}

// delayWrongToken returns after wrongTokenDelay, or when the client has gone or the page is
// closed. It logs how many wrong tokens came since the last line.
func (p *Page) delayWrongToken(r *http.Request) {
	if count := p.wrongTokens.addToken(time.Now()); count > 0 {
		p.options.Log.Warn("operator refused: wrong token", zap.String("remote", r.RemoteAddr), zap.Int("tokens", count))
	}
	delay := time.NewTimer(wrongTokenDelay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-r.Context().Done():
	case <-p.ctx.Done():
	}
}
