package opensearch

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// ClusterURL is a setting of the form https://host[:port][/path]. It holds no secret:
// a URL with a user or a query is refused, and prints as [redacted].
type ClusterURL string

const redacted = "[redacted]"

// String returns the URL if it is a good one.
func (u ClusterURL) String() string {
	if _, err := u.parse(); err != nil && u != "" {
		return redacted
	}
	return string(u)
}

// Format implements [fmt.Formatter].
func (u ClusterURL) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(u.String())) }

// MarshalText implements [encoding.TextMarshaler].
func (u ClusterURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// parse returns an error that does not repeat the URL.
func (u ClusterURL) parse() (*url.URL, error) {
	if u == "" {
		return nil, errors.New("is empty; set it to a URL such as https://search.example.com:9200")
	}
	parsed, err := url.Parse(string(u))
	switch {
	case err != nil || parsed.Host == "" || parsed.Scheme != "https" && parsed.Scheme != "http":
		return nil, errors.New("is not a URL such as https://search.example.com:9200")
	case parsed.User != nil || strings.Contains(parsed.Path, "@"):
		return nil, errors.New("has a user or a password; put them into USERNAME and PASSWORD")
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return nil, errors.New("has a query; leave it out")
	}
	return parsed, nil
}

// isLoopback reports whether the URL's host is this machine.
func isLoopback(u *url.URL) bool {
	host := u.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
