package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// account is one of the two accounts, and what the requests need of its answers.
type account struct {
	endpoint string
	etags    map[document][]string // of the versions of each item, the newest one last
	session  map[string]string     // newest token of each key, see [document.place]
	feed     map[string]string     // position in each range, by its id
}

// document is a place of an item.
type document struct{ container, key, id string }

func newAccount(endpoint string) *account {
	return &account{endpoint: strings.TrimSuffix(endpoint, "/"), etags: map[document][]string{}, session: map[string]string{}, feed: map[string]string{}}
}

// request is a request without its signature.
type request struct {
	method, path string // path is that of the URL, with its ids escaped
	header       map[string]string
	body         []byte
}

// answer is an answer that was read to its end. The zero value stands for none.
type answer struct {
	status, substatus int
	header            http.Header
	body              []byte
}

func (a *answer) code() string {
	switch {
	case a.status == 0:
		return "no answer"
	case a.substatus == 0:
		return strconv.Itoa(a.status)
	}
	return fmt.Sprintf("%d/%d", a.status, a.substatus)
}

// client gives up an account that does not answer.
var client = http.Client{Timeout: time.Minute}

func (a *account) send(r request) (*answer, error) {
	req, err := http.NewRequest(r.method, a.endpoint+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Ms-Version", "2020-07-15")
	if err := sign(req); err != nil {
		return nil, err
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	substatus, _ := strconv.Atoi(resp.Header.Get("X-Ms-Substatus"))
	return &answer{resp.StatusCode, substatus, resp.Header, body}, nil
}

// sign adds the signature with the key of the account:
// https://learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources
func sign(req *http.Request) error {
	key, err := base64.StdEncoding.DecodeString(os.Getenv("OUTSIDE_KEY"))
	if err != nil {
		return fmt.Errorf("OUTSIDE_KEY: %w", err)
	}
	path, err := url.PathUnescape(strings.Trim(req.URL.EscapedPath(), "/"))
	if err != nil {
		return err
	}
	segments := strings.Split(path, "/")
	kind, link := segments[len(segments)-1], strings.Join(segments[:len(segments)-1], "/")
	if len(segments)%2 == 0 {
		kind, link = segments[len(segments)-2], path
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s\n\n", strings.ToLower(req.Method), kind, link, strings.ToLower(date))
	req.Header.Set("X-Ms-Date", date)
	req.Header.Set("Authorization", url.QueryEscape("type=master&ver=1.0&sig="+base64.StdEncoding.EncodeToString(mac.Sum(nil))))
	return nil
}

// list returns the members of an array in the body of an answer.
func (a *answer) list(name string) []map[string]any {
	var body map[string]json.RawMessage
	var list []map[string]any
	if json.Unmarshal(a.body, &body) != nil || json.Unmarshal(body[name], &list) != nil {
		return nil
	}
	return list
}
