// Package page serves one web page about the functions of a process: their ranges and
// hosts, the life of each change, dead letters, and actions. Its caller says what the
// page shows ([Source]) and what a viewer may do ([Action]), so that the command dev and
// a host in production serve the same page.
//
// The page is static, its data are JSON below api/v1/, and updates are server-sent
// events, or answers to questions every few seconds. All documents reach the browser as
// texts in JSON, which the script shows with textContent only; the
// Content-Security-Policy forbids everything else. The page plain shows the same without
// a script. All addresses are relative, so that a proxy may add a prefix.
//
// Actions need the token, as a cookie or as an Authorization header, and must not come
// from another origin. On a page for this machine alone, requests must name it in their
// Host header, which keeps out pages of other sites that rebind their name to 127.0.0.1.
// On a page for other machines ([Options].Private), every request for data needs the
// token.
package page

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Options describe a page.
type Options struct {
	App      string    // name of the app
	Token    string    // that actions need; required
	Recorder *Recorder // of the changes and the timeline; required
	Source   Source
	Actions  []Action
	Log      *zap.Logger // tells of actions; nil: none

	Private bool // other machines can reach the page: all data need the token
	Polled  bool // no answer can be a stream: viewers ask for updates every few seconds
	Hidden  bool // documents are neither shown nor sent
}

// Page is the page of a process. Close it after use.
type Page struct {
	options Options
	run     string // random: tells viewers that the process was started again
	mux     *http.ServeMux
	origins *http.CrossOriginProtection
	viewers viewers
	states  cache[State]
	letters letterLists
	plans   plans

	wrongTokens wrongTokens

	ctx     context.Context // ends at Close
	end     context.CancelFunc
	working sync.WaitGroup // actions, samples
}

// New returns a page that is not served yet.
func New(o Options) (*Page, error) {
	if o.Token == "" {
		return nil, errors.New("the page has no token")
	}
	if o.Recorder == nil {
		return nil, errors.New("the page has no recorder")
	}
	o.Log = cmp.Or(o.Log, zap.NewNop())
	p := &Page{options: o, run: rand.Text()[:8], mux: http.NewServeMux(), origins: http.NewCrossOriginProtection()}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.states.init(lookEvery, 0)
	p.plans.init()
	p.mux.HandleFunc("GET /{$}", fileServer("text/html", indexFile))
	p.mux.HandleFunc("GET /page.css", fileServer("text/css", styleFile))
	p.mux.HandleFunc("GET /page.js", fileServer("text/javascript", scriptFile))
	p.addAPI()
	p.addPlain()
	if o.Source.Behind != nil {
		p.working.Go(p.sample)
	}
	return p, nil
}

// sampleEvery is the time between two samples of the lag, for the graphs.
const sampleEvery = 15 * time.Second

// sample records how far the functions of this process are behind, until the page is closed.
func (p *Page) sample() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		p.options.Recorder.sample(p.options.Source.Behind())
		select {
		case <-tick.C:
		case <-p.ctx.Done():
			return
		}
	}
}

// Close ends the actions that still run and the samples, and waits for them. A nil page has none.
func (p *Page) Close() {
	if p == nil {
		return
	}
	p.end()
	p.working.Wait()
}

// Serve serves the page until ctx ends and all requests have ended.
func (p *Page) Serve(ctx context.Context, listener net.Listener) error {
	requests, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	server := &http.Server{
		Handler: p, BaseContext: func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		end() // of streams
		grace, cancel := context.WithTimeout(requests, 0)
		defer cancel()
		_ = server.Shutdown(grace) // what it leaves, Close ends
		_ = server.Close()
	})
	err := server.Serve(listener)
	if stop() {
		return err // it was not asked to stop
	}
	<-stopped
	return nil
}

// NewToken returns a token that cannot be guessed.
func NewToken() string { return rand.Text() }

// cache holds a value that is read at most once in a while for all viewers.
type cache[T any] struct {
	every time.Duration
	share time.Duration // the value is kept for so many times the time of its reading at least
	turn  chan struct{} // holds a token while a viewer reads

	mu     sync.Mutex // guards the fields below
	value  T
	took   time.Duration // the reading
	at     time.Time     // zero: there is none
	marker int64
}

func (c *cache[T]) init(every, share time.Duration) {
	c.every, c.share, c.turn = every, share, make(chan struct{}, 1)
}

// isBusy reports whether a viewer reads.
func (c *cache[T]) isBusy() bool { return len(c.turn) > 0 }

// get returns the value. It reads it again if it is too old, or was read under another
// marker some time ago, unless another viewer does so.
func (c *cache[T]) get(ctx context.Context, marker int64, read func(context.Context) T) T {
	value, fresh, found := c.stored(marker)
	if fresh {
		return value
	}
	if found {
		select {
		case c.turn <- struct{}{}:
		default:
			return value // another viewer reads
		}
	} else {
		select {
		case c.turn <- struct{}{}:
		case <-ctx.Done():
			return value
		}
	}
	defer func() { <-c.turn }()
	if value, fresh, _ := c.stored(marker); fresh {
		return value
	}
	began := time.Now()
	value = read(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() == nil {
		c.value, c.at, c.marker = value, time.Now(), marker
		c.took = c.at.Sub(began)
	}
	return value
}

func (c *cache[T]) stored(marker int64) (value T, fresh, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return value, false, false
	}
	age := time.Since(c.at)
	return c.value, age < max(lookEvery, c.share*c.took) || c.marker == marker && age < c.every, true
}
