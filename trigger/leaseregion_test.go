package trigger

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// twoRegions is an account with two write regions, the first of which can change.
// Requests are answered by the one embedded account.
type twoRegions struct {
	w        *world
	swapped  atomic.Bool
	written  atomic.Pointer[string] // host of the last write of a lease
	newWrite atomic.Int64           // writes of leases in the second region
}

func (r *twoRegions) Do(req *http.Request) (*http.Response, error) {
	base, err := url.Parse(r.w.account.Endpoint())
	must(r.w.t, err)
	host := req.URL.Host
	if req.Method == http.MethodPut && strings.Contains(req.URL.Path, "/colls/leases/") {
		r.written.Store(&host)
		if strings.HasPrefix(host, "second") {
			r.newWrite.Add(1)
		}
	}
	redirected := req.Clone(req.Context())
	redirected.URL.Host, redirected.Host = base.Host, base.Host
	resp, err := r.w.account.Do(redirected)
	if err != nil || req.URL.Path != "/" {
		return resp, err
	}
	resp.Body.Close()
	names := []string{"first", "second"}
	if r.swapped.Load() {
		names = []string{"second", "first"}
	}
	var locations []string
	for _, name := range names {
		locations = append(locations, fmt.Sprintf(`{"name":%q,"databaseAccountEndpoint":"%s://%s.%s/"}`, name, base.Scheme, name, base.Host))
	}
	allLocations := strings.Join(locations, ",")
	body := []byte(`{"id":"games","writableLocations":[` + allLocations + `],"readableLocations":[` + allLocations + `],"enableMultipleWriteLocations":true}`)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Del("Content-Length")
	return resp, nil
}

func TestLeaseIsConfirmedInNewWriteRegion(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		logger, log := recordLog(slog.LevelWarn)
		account := &twoRegions{w: w}
		var early atomic.Int64
		h := w.hostOn(account, "a", func(ctx context.Context, b Batch) error {
			if account.swapped.Load() && b.Changes[0].LSN > 11 && account.newWrite.Load() == 0 {
				early.Add(1)
			}
			return w.recorder("a")(ctx, b)
		}, func(_ *Function, o *Options) { o.Logger = logger })
		stop := w.startHost(h)
		w.writeMany("before", 10)
		time.Sleep(time.Minute)
		if address := account.written.Load(); address == nil || !strings.HasPrefix(*address, "first") {
			t.Errorf("leases are written in %v", address)
		}
		account.swapped.Store(true)
		time.Sleep(7 * time.Minute) // until the account is read again, and an expiration more
		w.writeMany("after", 10)
		time.Sleep(time.Minute)
		stop()
		w.checkComplete(0)
		if early.Load() > 0 || account.newWrite.Load() == 0 {
			t.Errorf("%d deliveries before the lease was confirmed; %d writes in the new region", early.Load(), account.newWrite.Load())
		}
		if log.FilterMessageSnippet("the lease container has failed over").Len() != 1 {
			t.Errorf("the log says %v", log.All())
		}
	})
}
