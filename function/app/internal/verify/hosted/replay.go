package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"halley/function/app/internal/verify"
	"halley/trigger/emulator"
	"halley/trigger/emulator/hosted"
)

// outcome is the result of a replay.
type outcome struct {
	compared, skipped int
	differences       []string
}

// maxLine bounds a line of a record, in bytes.
const maxLine = 64 << 20

// replayTable sends the requests of the exchanges that a Markdown table of recorded answers
// names, see [hosted.WithAnswers], to an account without data, and compares the answers.
func replayTable(ctx context.Context, table io.Reader, account *emulator.Account) (outcome, error) {
	exchanges, err := hosted.Exchanges()
	if err != nil {
		return outcome{}, err
	}
	exchanges, err = hosted.WithAnswers(exchanges, table)
	if err != nil {
		return outcome{}, err
	}
	player := &hosted.Player{
		Endpoint: account.Endpoint(), Key: emulator.Key, Now: time.Now, Send: account.Do,
		Wait: func(_ context.Context, d time.Duration) error { account.Advance(d); return nil },
	}
	answers, err := player.Play(ctx, exchanges)
	if err != nil {
		return outcome{}, err
	}
	result := outcome{compared: len(answers)}
	for _, a := range answers {
		if a.Differences != nil {
			result.differences = append(result.differences, fmt.Sprintf("%s %s %s (%s): %s", a.ID, a.Method, a.Path, a.Name, strings.Join(a.Differences, "; ")))
		}
	}
	return result, nil
}

// replay sends the requests of a record to an account, in their order and with the waits
// between them, and compares the answers.
func replay(record io.Reader, account *emulator.Account) (outcome, error) {
	var result outcome
	r := replayer{account: account, values: map[scoped]string{}, newest: map[scoped]int64{}}
	lines := bufio.NewScanner(record)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var x verify.Recorded
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			return result, fmt.Errorf("line %d is not an exchange: %w", n, err)
		}
		if x.Fact == "throttling" || x.Fact == "split" { // the embedded account does neither by itself
			result.skipped++
			continue
		}
		got, err := r.send(x)
		if err != nil {
			return result, fmt.Errorf("line %d: %w", n, err)
		}
		difference := compare(x, got)
		if difference != "" && strings.HasPrefix(x.Fact, "end to end") { // two hosts send at once, and a record does not tell which request the account took first
			result.skipped++
			continue
		}
		result.compared++
		if difference != "" {
			result.differences = append(result.differences, fmt.Sprintf("%d %s %s (%s): %s", n, x.Method, x.Path, x.Fact, difference))
		}
	}
	return result, lines.Err()
}

// scoped is a value of a record, such as an etag or an LSN, in the container that it belongs to.
type scoped struct{ container, value string }

// replayer sends recorded requests. Etags, positions, session tokens and resource ids of the
// record are replaced by those that the account has given in their place.
type replayer struct {
	account *emulator.Account
	values  map[scoped]string
	newest  map[scoped]int64 // recorded LSN to replayed LSN; the value is a number
	after   float64          // time of the exchange before
	later   time.Duration    // by how much the account's clock is later than that of the record
}

// translated are the headers of a request that hold values of earlier answers.
var translated = map[string]bool{"If-Match": true, "If-None-Match": true, "X-Ms-Session-Token": true, "X-Ms-Cosmos-Intended-Collection-Rid": true, "X-Ms-Continuation": true}

func (r *replayer) send(x verify.Recorded) (verify.Recorded, error) {
	if d := x.After - r.after; d > 0 {
		r.account.Advance(time.Duration(d * float64(time.Second)))
		r.after = x.After
	}
	container := containerOf(x.Path)
	address, err := url.Parse(r.account.Endpoint())
	if err != nil {
		return verify.Recorded{}, err
	}
	address.Path = x.Path
	req, err := http.NewRequest(x.Method, address.String(), strings.NewReader(x.Body))
	if err != nil {
		return verify.Recorded{}, err
	}
	for name, value := range x.Header {
		if translated[name] {
			value = r.translate(container, value)
		}
		if t, err := http.ParseTime(value); err == nil && name == "If-Modified-Since" {
			value = t.Add(r.later).Format(http.TimeFormat)
		}
		req.Header.Set(name, value)
	}
	hosted.Sign(req, emulator.Key, time.Now())
	resp, err := r.account.Do(req)
	if err != nil {
		return verify.Recorded{}, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return verify.Recorded{}, err
	}
	got := verify.Recorded{Status: resp.StatusCode, Result: string(body), Answer: map[string]string{}}
	for name := range resp.Header {
		got.Answer[name] = resp.Header.Get(name)
	}
	r.learn(container, x, got)
	return got, nil
}

func containerOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	return strings.Join(parts[:min(4, len(parts))], "/")
}

// translate returns the account's value for a recorded one. A position between two known
// LSNs is that of the lower one, and one below all of them keeps its distance to the lowest.
func (r *replayer) translate(container, value string) string {
	if known, ok := r.values[scoped{container, value}]; ok {
		return known
	}
	wanted, err := strconv.ParseInt(strings.Trim(value, `"`), 10, 64)
	if err != nil {
		return value
	}
	lower, higher := int64(-1), int64(math.MaxInt64)
	for s := range r.newest {
		if lsn, _ := strconv.ParseInt(s.value, 10, 64); s.container != container {
			continue
		} else if lsn <= wanted {
			lower = max(lower, lsn)
		} else {
			higher = min(higher, lsn)
		}
	}
	switch {
	case lower >= 0:
		wanted = r.newest[scoped{container, strconv.FormatInt(lower, 10)}]
	case higher < math.MaxInt64:
		wanted = max(0, wanted-higher+r.newest[scoped{container, strconv.FormatInt(higher, 10)}])
	default:
		return value
	}
	return strconv.Quote(strconv.FormatInt(wanted, 10))
}

// learn keeps which values the account has given in place of the recorded ones.
func (r *replayer) learn(container string, x, got verify.Recorded) {
	for _, name := range []string{"Etag", "X-Ms-Session-Token", "X-Ms-Continuation"} {
		r.pair(container, x.Answer[name], got.Answer[name])
	}
	onDocuments := strings.Contains(x.Path, "/docs") // others are answered by a partition with LSNs of its own
	if recorded, replayed := x.Answer["Lsn"], got.Answer["Lsn"]; onDocuments && recorded != "" && replayed != "" {
		lsn, _ := strconv.ParseInt(replayed, 10, 64)
		r.newest[scoped{container, recorded}] = lsn
	}
	recordedDate, err := http.ParseTime(x.Answer["Date"])
	replayedDate, replayedErr := http.ParseTime(got.Answer["Date"])
	if err == nil && replayedErr == nil {
		r.later = replayedDate.Sub(recordedDate)
	}
	recorded, replayed := documents(x.Result), documents(got.Result)
	for id, fields := range recorded {
		for name, value := range fields {
			r.pair(container, value, replayed[id][name])
		}
	}
}

func (r *replayer) pair(container, recorded, replayed string) {
	if recorded != "" && replayed != "" {
		r.values[scoped{container, recorded}] = replayed
	}
}

// documents returns the resource ids and etags in a body, by the id of their resource.
func documents(body string) map[string]map[string]string {
	type resource struct {
		ID   string `json:"id"`
		RID  string `json:"_rid"`
		ETag string `json:"_etag"`
	}
	var list struct {
		resource
		Documents []resource
	}
	if json.Unmarshal([]byte(body), &list) != nil {
		return nil
	}
	found := map[string]map[string]string{}
	for _, d := range append(list.Documents, list.resource) {
		found[d.ID] = map[string]string{"_rid": d.RID, "_etag": d.ETag}
	}
	return found
}

// compare returns in which way an answer differs from the recorded one, "" if it does not.
func compare(recorded, got verify.Recorded) string {
	for _, aspect := range []struct {
		name string
		of   func(verify.Recorded) string
	}{
		{"status", func(x verify.Recorded) string { return strconv.Itoa(x.Status) }},
		{"substatus", func(x verify.Recorded) string { return strings.TrimPrefix(x.Answer["X-Ms-Substatus"], "0") }},
		{"documents", func(x verify.Recorded) string { return x.Answer["X-Ms-Item-Count"] }},
		{"session token", func(x verify.Recorded) string { return presence(x.Answer["X-Ms-Session-Token"]) }},
		{"etag", func(x verify.Recorded) string { return etagForm(x.Answer["Etag"]) }},
	} {
		if want, is := aspect.of(recorded), aspect.of(got); want != is {
			return fmt.Sprintf("%s %q, recorded %q", aspect.name, is, want)
		}
	}
	return ""
}

func presence(value string) string {
	if value == "" {
		return "absent"
	}
	return "present"
}

var quotedNumber = regexp.MustCompile(`^"\d+"$`)

// etagForm is the form of an etag: that of a feed, of a resource, or none.
func etagForm(etag string) string {
	switch {
	case etag == "":
		return "absent"
	case quotedNumber.MatchString(etag):
		return "a quoted number"
	case strings.HasPrefix(etag, `"`):
		return "quoted"
	}
	return "bare"
}
