package emulator

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// token is a JWT as emulator_test.go of azcosmos makes them.
func token(secret string, expires time.Time) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"typ":"JWT","alg":"RS256"}`)) + "." + part(fmt.Appendf(nil, `{"appid":"localhost","exp":%d}`, expires.Unix())) + "." + part([]byte(secret))
}

func TestAuthorization(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	c.create("a", "k")
	good := c.request("GET", items+"/a", "", nil).Header.Get("Authorization")
	plain, _ := url.QueryUnescape(good)
	other := c.request("GET", items+"/b", "", nil).Header.Get("Authorization")
	later := time.Now().Add(time.Hour)
	for _, tt := range []struct{ name, want, header string }{
		{"signature", "200", good},
		{"signature that is not escaped", "200", plain},
		{"signature of another item", "401", other},
		{"no header", "401", " "},
		{"other kind", "401", "Bearer x"},
		{"no base64", "401", "type=master&ver=1.0&sig=!"},
		{"token", "200", "type=aad&ver=1.0&sig=" + token(Key, later)},
		{"escaped token", "200", url.QueryEscape("type=aad&ver=1.0&sig=" + token(Key, later))},
		{"token with another key", "401", "type=aad&ver=1.0&sig=" + token("secret", later)},
		{"expired token", "401", "type=aad&ver=1.0&sig=" + token(Key, time.Now().Add(-time.Minute))},
		{"half a token", "401", "type=aad&ver=1.0&sig=" + strings.Split(token(Key, later), ".")[0]},
		{"claims that are none", "401", "type=aad&ver=1.0&sig=x.!." + base64.RawURLEncoding.EncodeToString([]byte(Key))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.t = t
			a := c.expect(tt.want, "GET", items+"/a", "", with(pk("k"), "Authorization", tt.header)...)
			if a.status == 401 && (a.decode(t)["code"] != "Unauthorized" || strings.Contains(a.body, Key)) {
				t.Errorf("body %s", a.body)
			}
		})
	}
}

// TestSignatureVector has the example of
// https://learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources
// signed with its own key.
func TestSignatureVector(t *testing.T) {
	key := masterKey
	defer func() { masterKey = key }()
	masterKey, _ = base64.StdEncoding.DecodeString("dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw==")
	got := base64.StdEncoding.EncodeToString(sign("GET", "dbs", "dbs/ToDoList", "Thu, 27 Apr 2017 00:51:12 GMT"))
	if want := "c09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu+c+c="; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}

func TestSignatureOfResourceIDs(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	self := c.expect("200", "GET", "/dbs/db/colls/c", "").decode(t)["_self"].(string)
	rid := strings.Split(self, "/")[3]
	for _, path := range []string{"/" + self, "/" + self + "pkranges"} {
		kind := map[bool]string{true: "pkranges", false: "colls"}[strings.HasSuffix(path, "pkranges")]
		date := time.Now().UTC().Format(http.TimeFormat)
		sig := base64.StdEncoding.EncodeToString(sign("GET", kind, strings.ToLower(rid), date))
		c.expect("200", "GET", path, "", "x-ms-date", date, "Authorization", url.QueryEscape("type=master&ver=1.0&sig="+sig))
	}
}

func TestPathTraps(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	c.create("a", "k")
	for path, want := range map[string]string{
		"//dbs//db/":                "200",
		"/dbs/db/colls/c/":          "200",
		"/dbs/db/colls/":            "200",
		"/dbs/d%62/colls/c":         "200",
		"/dbs/db/colls/c/docs//a/":  "200",
		"/dbs/./colls":              "404/",
		"/colls/c":                  "400/",
		"/dbs/db/colls/c/triggers":  "400/",
		"/dbs/db/colls/c/others":    "400/",
		"/dbs/db/pkranges":          "400/",
		"/dbs/db/colls/c/pkranges/": "200",
	} {
		c.expect(want, "GET", path, "", pk("k")...)
	}
}
