package trigger

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// A host that reads the feed but cannot write its lease stops delivering before
// anybody else may take the lease, counted from when its last write left; and
// goes on where it stopped once writes arrive again.
func TestNoDeliveryBeginsOnALeaseThatMayBeLost(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer time.Duration // how long the last write that arrives is on its way
	}{
		{"at once", 0},
		{"slow", 20 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				var mu sync.Mutex
				var left, last time.Time // when the newest write left; when the newest delivery began
				cut := false
				w.before = func(r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					if r.Method == http.MethodPut && !cut {
						left = time.Now()
					}
				}
				record := w.record("a")
				stop := w.running(w.host("a", func(ctx context.Context, b Batch) error {
					mu.Lock()
					last = time.Now()
					mu.Unlock()
					return record(ctx, b)
				}))
				time.Sleep(10 * time.Second)
				if test.answer > 0 {
					w.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Delay: test.answer, Count: 1})
				}
				w.fill("before", 1)
				time.Sleep(6 * time.Second) // delivered, and its checkpoint has left
				mu.Lock()
				cut = true
				mu.Unlock()
				remove := w.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Status: 503})
				for range 120 {
					w.fill("during", 3)
					time.Sleep(time.Second)
				}
				mu.Lock()
				after := last.Sub(left)
				mu.Unlock()
				if after >= 54*time.Second || after < 40*time.Second {
					t.Errorf("the last delivery began %v after the last write left, want just under 54s", after)
				}
				remove()
				time.Sleep(time.Minute)
				stop()
				w.complete(0)
			})
		})
	}
}

// The service's clock alone decides what has expired: hosts whose own clocks
// are ten minutes ahead or behind neither take leases from each other nor
// leave those of a dead host alone.
func TestClocksOfHostsDecideNothing(t *testing.T) {
	for _, offset := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		t.Run(offset.String(), func(t *testing.T) {
			inWorld(t, 4, func(t *testing.T, w *world) {
				w.fill("doc", 40)
				a := w.running(w.hostThrough("a", elsewhen{w, offset}, w.record("a")))
				time.Sleep(time.Minute)
				b := w.running(w.hostThrough("b", elsewhen{w, offset}, w.record("b")))
				time.Sleep(10 * time.Minute)
				if n := w.happened(Acquired); n != 6 { // four, and two of them handed over
					t.Errorf("%d acquisitions by two healthy hosts", n)
				}
				a()
				b()
				w.complete(0)

				l := w.leaseDocuments()["0"]
				l.owner = "dead"
				w.replaceLease(l)
				c := w.running(w.hostThrough("c", elsewhen{w, offset}, w.record("c")))
				time.Sleep(88 * time.Second)
				c()
				if l := w.leaseDocuments()["0"]; l.owner == "dead" {
					t.Error("the lease of a dead host was left alone")
				}
			})
		})
	}
}

// hostThrough is a host that reaches the account through a transport.
func (w *world) hostThrough(owner string, transport policy.Transporter, handler Handler) *Host {
	w.t.Helper()
	credential, err := cosmos.KeyCredential(emulator.Key)
	must(w.t, err)
	client, err := cosmos.NewClient(w.account.Endpoint(), credential, &cosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: transport},
	})
	must(w.t, err)
	h, err := New(client.Container("db", "leases"), []Function{{
		Name: "test", Container: client.Container("db", "items"), Handler: handler, StartFrom: FromBeginning(),
	}}, &Options{Owner: owner, Observers: []func(Event){w.observe}})
	must(w.t, err)
	return h
}

// elsewhen is the account with its clock apart from the host's.
type elsewhen struct {
	w      *world
	offset time.Duration
}

var written = regexp.MustCompile(`"_ts":\d+`)

func (e elsewhen) Do(r *http.Request) (*http.Response, error) {
	resp, err := counted{e.w}.Do(r)
	if err != nil {
		return resp, err
	}
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return resp, err
	}
	resp.Header.Set("Date", date.Add(e.offset).UTC().Format(http.TimeFormat))
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return resp, err
	}
	body = written.ReplaceAllFunc(body, func(ts []byte) []byte {
		n, _ := strconv.ParseInt(strings.TrimPrefix(string(ts), `"_ts":`), 10, 64)
		return strconv.AppendInt([]byte(`"_ts":`), n+int64(e.offset/time.Second), 10)
	})
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	if resp.Header.Get("Content-Length") != "" {
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return resp, err
}
