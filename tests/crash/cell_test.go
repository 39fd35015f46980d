package crash

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/tests/history"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

const (
	database       = "games"
	leaseContainer = "leases"
)

// cell is a monitored container with its own hosts, leases and history. Several
// cells share an account, so that many hosts can be killed at a time while each
// range still has live ones.
type cell struct {
	t         *testing.T
	account   *emulator.Account
	name      string
	monitored string
	leases    string
	path      string   // of the history
	flags     []string // further ones of its hosts
	file      *os.File
	late      sync.WaitGroup // pending requests of dead hosts

	writing sync.Mutex              // held while a lease write is applied and recorded
	known   map[string]leaseContent // lease documents by id

	mu     sync.Mutex
	armed  *trap
	lives  int
	delays int
}

// trap kills the first host that reaches its point.
type trap struct {
	point  point
	sprung chan *life // receives the dead host
}

func newCell(t *testing.T, account *emulator.Account, name, dir string, ranges int) *cell {
	c := &cell{
		t: t, account: account, name: name, monitored: "results-" + name, leases: leaseContainer + "-" + name,
		path: filepath.Join(dir, name+".jsonl"), known: map[string]leaseContent{},
	}
	var err error
	c.file, err = os.OpenFile(c.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(t, err)
	client := connect(t, account)
	for id, definition := range map[string]cosmos.ContainerDefinition{
		c.monitored: {PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/player"}}, Throughput: ranges * 10_000},
		c.leases:    {PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}}, Throughput: 400},
	} {
		definition.ID = id
		must(t, client.CreateContainer(t.Context(), database, definition))
	}
	return c
}

func connect(t *testing.T, transport interface {
	Do(*http.Request) (*http.Response, error)
}) *cosmos.Client {
	t.Helper()
	credential, err := cosmos.KeyCredential(emulator.Key)
	must(t, err)
	client, err := cosmos.NewClient("https://halley.emulator/", credential, &cosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: transport},
	})
	must(t, err)
	return client
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (c *cell) record(events ...history.Event) {
	if err := history.Append(c.file, events...); err != nil {
		c.t.Errorf("record: %v", err)
	}
}

// arm sets a trap. There is only one at a time.
func (c *cell) arm(p point) *trap {
	trap := &trap{p, make(chan *life, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = trap
	return trap
}

// disarm removes the trap. It returns false if the trap has already sprung.
func (c *cell) disarm(t *trap) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.armed == t
	if was {
		c.armed = nil
	}
	return was
}

// springs returns the trap and disarms it, if its point is a request of this kind.
func (c *cell) springs(d deed) *trap {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.armed
	if t == nil || t.point.deed != d || t.point == atRandom {
		return nil
	}
	c.armed = nil
	return t
}

// serve answers a request of one process of a host.
func (c *cell) serve(l *life, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the host is dead
	}
	c.writing.Lock()
	q := classify(r, body, c.known)
	c.writing.Unlock()
	if q.deed == page {
		c.servePage(l, q, w, r)
		return
	}
	t := c.springs(q.deed)
	if t == nil {
		c.carryOut(l, q, r, body).send(w)
		return
	}
	switch t.point.stage {
	case lost:
		l.kill()
	case late:
		l.kill()
		c.later(l, q, r, body)
	case unanswered:
		c.carryOut(l, q, r, body)
		l.kill()
	case answered:
		c.carryOut(l, q, r, body).send(w)
		l.kill()
	}
	t.sprung <- l
}

// servePage answers a feed read. It is a point only if the page has changes.
func (c *cell) servePage(l *life, q request, w http.ResponseWriter, r *http.Request) {
	a := c.carryOut(l, q, r, nil)
	if a.status != http.StatusOK {
		a.send(w)
		return
	}
	l.readPage()
	t := c.springs(page)
	if t == nil {
		a.send(w)
		return
	}
	if t.point.stage != unanswered {
		a.send(w)
	}
	if t.point.stage == working {
		<-after(handling / 2)
	}
	l.kill()
	t.sprung <- l
}

// later applies a request of a dead host: half of them at once, the others when
// another host may have acquired the lease. A create is not delayed: it has no
// If-Match, so if it arrived when its lease was already retired, it would create
// the lease again.
func (c *cell) later(l *life, q request, r *http.Request, body []byte) {
	c.mu.Lock()
	c.delays++
	wait := c.delays%2 == 0 && r.Header.Get("If-Match") != ""
	c.mu.Unlock()
	c.late.Go(func() {
		if wait {
			<-after(2 * expiration)
		}
		c.carryOut(l, q, r, body)
	})
}

// reply is an answer of the account.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (a reply) send(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
	_ = http.NewResponseController(w).Flush()
}

// carryOut applies a request to the account. If it changes a lease, the change is
// recorded before the request is answered.
func (c *cell) carryOut(l *life, q request, r *http.Request, body []byte) reply {
	if q.changesLease() {
		c.writing.Lock()
		defer c.writing.Unlock()
		q = classify(r, body, c.known)
	}
	a := c.ask(r, body)
	if a.status < 300 && q.changesLease() {
		if q.deed == retire {
			delete(c.known, q.id)
		} else if strings.Contains(q.id, "..") {
			c.known[q.id] = q.lease
		}
		if e, is := q.event(l.name); is {
			c.record(e)
		}
	}
	return a
}

// ask passes a request on to the account, even if its sender has died.
func (c *cell) ask(r *http.Request, body []byte) reply {
	out := r.Clone(c.t.Context())
	out.Body, out.ContentLength, out.RequestURI = io.NopCloser(bytes.NewReader(body)), int64(len(body)), ""
	resp, err := c.account.Do(out)
	if err != nil {
		return reply{status: http.StatusServiceUnavailable}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	return reply{resp.StatusCode, resp.Header, answer}
}

// ranges returns the physical ranges of the cell that are not being split or
// merged.
func (c *cell) ranges() []emulator.RangeState {
	for _, d := range c.account.State().Databases {
		for _, o := range d.Containers {
			if o.ID == c.monitored {
				return o.Ranges
			}
		}
	}
	return nil
}

// tidy reports whether each key is covered by exactly one lease.
func (c *cell) tidy() bool {
	c.writing.Lock()
	defer c.writing.Unlock()
	next := map[string]string{} // bounds of leases
	for _, l := range c.known {
		if _, twice := next[l.FeedRange.Range.Min]; twice {
			return false
		}
		next[l.FeedRange.Range.Min] = l.FeedRange.Range.Max
	}
	at, covers := "", 0
	for ; at != "FF"; covers++ {
		end, found := next[at]
		if !found {
			return false
		}
		at = end
	}
	return covers == len(c.known)
}

// tokens returns the tokens of the current leases.
func (c *cell) tokens() (tokens []string) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for _, l := range c.known {
		tokens = append(tokens, l.Token)
	}
	slices.Sort(tokens)
	return tokens
}

const fewest, most = 2, 6 // ranges of a cell

// reshape splits a range, or merges two if there are many. It returns the name of
// the change.
func (c *cell) reshape(pick func(n int) int) (split bool, err error) {
	ranges := c.ranges()
	i := pick(len(ranges))
	if len(ranges) <= fewest || len(ranges) < most && pick(3) > 0 {
		_, err = c.account.Split(database, c.monitored, ranges[i].ID)
		return true, err
	}
	i = min(i, len(ranges)-2)
	_, err = c.account.Merge(database, c.monitored, ranges[i].ID, ranges[i+1].ID)
	return false, err
}

// events reads the history. If a host was killed while it wrote a line, the next
// line follows the unfinished one without a newline.
func (c *cell) events() ([]history.Event, error) {
	text, err := os.ReadFile(c.path)
	if err != nil {
		return nil, err
	}
	var events []history.Event
	for line := range bytes.Lines(text) {
		whole := line[max(0, bytes.LastIndex(line, []byte(`{"kind":`))):]
		got, err := history.Read(bytes.NewReader(whole))
		if err != nil && len(whole) == len(line) {
			err = errors.Join(err, fmt.Errorf("history %s: %q", c.path, line))
			return nil, err
		}
		events = append(events, got...)
	}
	return events, nil
}
