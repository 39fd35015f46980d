package hosted

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// apiVersion is the version of the recorded requests.
const apiVersion = "2018-12-31"

// unsigned is the Authorization of a request that has none.
const unsigned = "none"

// maxSent bounds how often a request is sent: after each 429, or until there is one as at
// the end of the recorded burst.
const maxSent = 2000

// Player sends the requests of exchanges to an account. All fields are required.
type Player struct {
	// Send sends one request, as [http.Client.Do] does.
	Send func(*http.Request) (*http.Response, error)
	// Endpoint is the URL of the account, without a path.
	Endpoint string
	// Key is the account's key, in base64.
	Key string
	// Now returns the time that signed requests carry.
	Now func() time.Time
	// Wait returns when d has passed on the account.
	Wait func(ctx context.Context, d time.Duration) error
}

// Result is an exchange and the answer that it had in a replay.
type Result struct {
	Exchange
	Got         Answer
	Differences []string // in words; nil = the answer is like the recorded one
}

// Play sends the requests of all exchanges in their order. It fails if one cannot be
// sent, or if one that prepares others has another status than it needs. The results are
// those of the recorded exchanges.
func (p *Player) Play(ctx context.Context, exchanges []Exchange) ([]Result, error) {
	var results []Result
	known := baselines{data: baseline{known: true}}
	etag := ""
	for _, e := range exchanges {
		if e.Pause > 0 {
			if err := p.Wait(ctx, e.Pause); err != nil {
				return results, err
			}
			continue
		}
		got, err := p.exchange(ctx, e, etag)
		if err != nil {
			return results, fmt.Errorf("exchange %s (%s): %w", e.ID, e.Name, err)
		}
		etag = got.Header.Get("Etag")
		if e.ID == "" {
			if e.Want.Status != 0 && got.Status != e.Want.Status {
				return results, fmt.Errorf("%s %s (%s): status %d, want %d: %s", e.Method, e.Path, e.Name, got.Status, e.Want.Status, got.Body)
			}
			continue
		}
		results = append(results, Result{Exchange: e, Got: got, Differences: known.compare(e, got)})
	}
	return results, nil
}

// exchange sends a request, and again if it is throttled, or until it is if the recorded
// answer is a 429.
func (p *Player) exchange(ctx context.Context, e Exchange, etag string) (Answer, error) {
	for sent := 1; ; sent++ {
		got, err := p.send(ctx, e, etag)
		throttled := got.Status == http.StatusTooManyRequests
		if err != nil || throttled == (e.Want.Status == http.StatusTooManyRequests) || sent == maxSent {
			return got, err
		}
		if !throttled {
			continue
		}
		wait, err := time.ParseDuration(got.Header.Get("X-Ms-Retry-After-Ms") + "ms")
		if err != nil {
			return got, fmt.Errorf("a 429 does not tell when to retry: %w", err)
		}
		if err := p.Wait(ctx, wait); err != nil {
			return got, err
		}
	}
}

func (p *Player) send(ctx context.Context, e Exchange, etag string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, e.Method, p.Endpoint+e.Path, strings.NewReader(e.Body))
	if err != nil {
		return Answer{}, err
	}
	for name, values := range e.Header {
		req.Header[name] = []string{strings.ReplaceAll(values[0], "{etag}", etag)}
	}
	req.Header.Set("X-Ms-Version", apiVersion)
	if req.Header.Get("Authorization") != unsigned {
		Sign(req, p.Key, p.Now())
	} else {
		req.Header.Del("Authorization")
	}
	resp, err := p.Send(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return readAnswer(resp, body), err
}

// Sign adds the date and the Authorization of an account's key, in base64, to a request.
//
// https://learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources
func Sign(req *http.Request, key string, now time.Time) {
	date := now.UTC().Format(http.TimeFormat)
	segments := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	kind, link := segments[len(segments)-1], strings.Join(segments[:len(segments)-1], "/")
	if len(segments)%2 == 0 {
		kind, link = segments[len(segments)-2], strings.Join(segments, "/")
		if kind == "offers" {
			link = strings.ToLower(segments[1])
		}
	}
	secret, _ := base64.StdEncoding.DecodeString(key) // a wrong key shows in the first answer
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s\n\n", strings.ToLower(req.Method), kind, link, strings.ToLower(date))
	req.Header.Set("X-Ms-Date", date)
	req.Header.Set("Authorization", url.QueryEscape("type=master&ver=1.0&sig="+base64.StdEncoding.EncodeToString(mac.Sum(nil))))
}

func readAnswer(resp *http.Response, body []byte) Answer {
	a := Answer{
		Status: resp.StatusCode, Substatus: resp.Header.Get("X-Ms-Substatus"), Charge: resp.Header.Get("X-Ms-Request-Charge"),
		Items: resp.Header.Get("X-Ms-Item-Count"), Session: resp.Header.Get("X-Ms-Session-Token"), Body: body, Header: resp.Header,
	}
	var failure struct{ Message string }
	if a.Status >= http.StatusBadRequest && json.Unmarshal(body, &failure) == nil {
		a.Message = failure.Message
		if a.Message == "" {
			a.Message = string(body)
		}
		a.Message, _, _ = strings.Cut(a.Message, "\n")
		a.Message = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(a.Message), ","), " ")
	}
	return a
}
