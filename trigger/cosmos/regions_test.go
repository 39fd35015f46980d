package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	west  = "https://games-westus.documents.azure.com:443/"
	north = "https://games-northeurope.documents.azure.com:443/"
)

// twoRegions returns a service with write region West US and read regions West
// US and North Europe.
func twoRegions(t *testing.T, answers ...any) *service {
	s := newService(t, answers...)
	s.account = func(int, *http.Request) (*http.Response, error) { return reply(200, accountBody(west, north)), nil }
	return s
}

// hosts returns the regions that the requests were sent to.
func (s *service) hosts() (hosts []string) {
	for _, r := range s.requests {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Host, "games-"), ".")
		if r.Host != r.URL.Host || r.URL.Scheme != "https" {
			s.t.Errorf("host %s of %s", r.Host, r.URL)
		}
		hosts = append(hosts, name)
	}
	return hosts
}

func wantHosts(t *testing.T, s *service, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, s.hosts()); diff != "" {
		t.Error(diff)
	}
}

func TestRegionsByPreference(t *testing.T) {
	for name, test := range map[string]struct {
		preferred []string
		want      string
	}{
		"none":           {nil, "westus"},
		"second":         {[]string{"North Europe"}, "northeurope"},
		"without spaces": {[]string{"northeurope", "West US"}, "northeurope"},
		"unknown first":  {[]string{"Mars", "North Europe"}, "northeurope"},
		"only unknown":   {[]string{"Mars"}, "westus"},
	} {
		t.Run(name, func(t *testing.T) {
			s := twoRegions(t, ok(emptyPage))
			c := s.client(&ClientOptions{PreferredRegions: test.preferred}).Container("db", "c")
			for _, call := range []func() error{
				func() error { return readOne(t.Context(), c) },
				func() error { return readFeedOnce(t.Context(), c) },
				func() error { return aQuery(t.Context(), c) },
				func() error { return writeOne(t.Context(), c) },
			} {
				if err := call(); err != nil {
					t.Fatal(err)
				}
			}
			wantHosts(t, s, test.want, test.want, test.want, "westus")
			if len(s.accountReads) != 1 || s.accountReads[0].URL.Host != "games.documents.azure.com:443" {
				t.Errorf("account reads: %d", len(s.accountReads))
			}
		})
	}
}

func TestReadsFailOver(t *testing.T) {
	for name, test := range map[string]struct {
		answers []any
		want    []string
	}{
		"no connection":         {[]any{errRefused, ok(emptyPage)}, []string{"northeurope", "westus"}},
		"lost once":             {[]any{errReset, ok(emptyPage)}, []string{"northeurope", "northeurope"}},
		"lost twice":            {[]any{errReset, status(503), ok(emptyPage)}, []string{"northeurope", "northeurope", "westus"}},
		"both without":          {[]any{errRefused, errNoHost, ok(emptyPage)}, []string{"northeurope", "westus", "northeurope"}},
		"throttled stays":       {[]any{status(429), status(429), ok(emptyPage)}, []string{"northeurope", "northeurope", "northeurope"}},
		"session not available": {[]any{status(404, "x-ms-substatus", "1002"), status(404, "x-ms-substatus", "1002"), ok(emptyPage)}, []string{"northeurope", "westus", "northeurope"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := twoRegions(t, test.answers...)
				c := s.client(&ClientOptions{PreferredRegions: []string{"North Europe"}}).Container("db", "c")
				if err := readFeedOnce(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				wantHosts(t, s, test.want...)
			})
		})
	}
}

// An unreachable region comes last for five minutes.
func TestUnreachableRegionIsAvoided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := twoRegions(t, errRefused, ok(emptyPage))
		c := s.client(&ClientOptions{PreferredRegions: []string{"North Europe"}}).Container("db", "c")
		for _, pause := range []time.Duration{0, time.Minute, 5 * time.Minute} {
			time.Sleep(pause)
			if err := readFeedOnce(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		wantHosts(t, s, "northeurope", "westus", "westus", "northeurope")
	})
}

// Regions that have been unreachable in the last five minutes take turns: the first one to be asked is
// not the one that has just failed.
func TestUnreachableRegionsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := twoRegions(t, errRefused, ok(emptyPage), errRefused, errRefused, ok(emptyPage))
		c := s.client(&ClientOptions{PreferredRegions: []string{"North Europe"}}).Container("db", "c")
		for range 2 {
			if err := readFeedOnce(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		wantHosts(t, s, "northeurope", "westus", "westus", "northeurope", "westus")
	})
}

// If an account has one write region, writes go to it, regardless of the
// preference; if it has more, writes follow the preference.
func TestWriteRegions(t *testing.T) {
	for multiple, want := range map[bool]string{false: "westus", true: "northeurope"} {
		s := newService(t, ok("{}"))
		s.account = func(int, *http.Request) (*http.Response, error) {
			body := accountBody(west, north)
			body = strings.Replace(body, `"readableLocations"`, `"x"`, 1)
			body = strings.Replace(body, `[{"name":"West US","databaseAccountEndpoint":"`+west+`"}],"x"`,
				`[{"name":"West US","databaseAccountEndpoint":"`+west+`"},{"name":"North Europe","databaseAccountEndpoint":"`+north+`"}],"x"`, 1)
			if multiple {
				body = strings.Replace(body, "false", "true", 1)
			}
			return reply(200, body), nil
		}
		if err := writeOne(t.Context(), s.client(&ClientOptions{PreferredRegions: []string{"North Europe"}}).Container("db", "c")); err != nil {
			t.Fatal(err)
		}
		wantHosts(t, s, want)
	}
}

// Lease documents are read and written in one region: an etag of another region locks
// nothing there.
func TestPinnedContainerUsesFirstWriteRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, ok(emptyPage))
		first, second := west, north
		s.account = func(int, *http.Request) (*http.Response, error) {
			location := func(name, endpoint string) string {
				return fmt.Sprintf(`{"name":%q,"databaseAccountEndpoint":%q}`, name, endpoint)
			}
			locations := location("first", first) + "," + location("second", second)
			return reply(200, `{"id":"games","writableLocations":[`+locations+`],"readableLocations":[`+locations+`],"enableMultipleWriteLocations":true}`), nil
		}
		c := s.client(&ClientOptions{PreferredRegions: []string{"second"}}).Container("db", "c")
		other := s.client(&ClientOptions{PreferredRegions: []string{"second"}}).Container("db", "c")
		c.PinToWriteRegion(time.Minute)
		for _, call := range []func(context.Context, *Container) error{readOne, writeOne, aQuery} {
			if err := call(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if err := writeOne(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		wantHosts(t, s, "westus", "westus", "westus", "northeurope")
		oldRegion := c.WriteRegion()
		first, second = north, west
		time.Sleep(accountAge)
		for _, pause := range []time.Duration{0, 59 * time.Second, time.Second} {
			time.Sleep(pause)
			if err := writeOne(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		wantHosts(t, s, "westus", "westus", "westus", "northeurope", "westus", "westus", "northeurope")
		if c.Failovers() != 2 || time.Since(c.FailedOver(NewPartitionKey("k"))) != time.Minute {
			t.Errorf("%d failovers, the last one at %s", c.Failovers(), c.FailedOver(NewPartitionKey("k")))
		}
		if now := c.WriteRegion(); now == oldRegion || now != "games-northeurope.documents.azure.com:443" {
			t.Errorf("write region %q after %q", now, oldRegion)
		}
	})
}

func TestAccountIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := twoRegions(t, ok("{}"))
		c := s.container()
		for _, want := range []struct {
			pause time.Duration
			reads int
		}{{0, 1}, {4 * time.Minute, 1}, {time.Minute, 2}, {time.Minute, 2}} {
			time.Sleep(want.pause)
			if err := readOne(t.Context(), c); err != nil || len(s.accountReads) != want.reads {
				t.Errorf("after %v: %d account reads, %v", want.pause, len(s.accountReads), err)
			}
		}
	})
}

// If the account cannot be read again, the known regions stay in use and
// requests do not wait.
func TestUnreadableAccountKeepsKnownRegions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, ok("{}"))
		s.account = func(n int, _ *http.Request) (*http.Response, error) {
			if n == 0 {
				return reply(200, accountBody(west, north)), nil
			}
			return nil, errRefused
		}
		c := s.container()
		for range 3 {
			start := time.Now()
			if err := readOne(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took > rereadTimeout {
				t.Errorf("held up for %v", took)
			}
			time.Sleep(6 * time.Minute)
		}
		wantHosts(t, s, "westus", "westus", "westus")
	})
}

func TestUnreadableAccountFailsRequests(t *testing.T) {
	for name, test := range map[string]struct {
		account any
		want    string
	}{
		"forbidden":    {status(403), "read account: 403"},
		"not ours":     {ok("<html>"), "not the expected JSON"},
		"no endpoint":  {ok(accountBody("", "")), "unusable endpoint"},
		"downgraded":   {ok(accountBody("http://games.example/", "http://games.example/")), "unusable endpoint"},
		"no such host": {errNoHost, "no such host"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(t)
				s.account = script(test.account)
				err := writeOne(t.Context(), s.container())
				if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "replace document dbs/Games/") {
					t.Errorf("got %v, want %q", err, test.want)
				}
			})
		})
	}
}

// If the global endpoint is down, the account is read from a preferred region.
func TestAccountReadInPreferredRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := twoRegions(t, ok("{}"))
		s.account = func(_ int, req *http.Request) (*http.Response, error) {
			if req.URL.Host == "games.documents.azure.com:443" {
				return nil, errRefused
			}
			return reply(200, accountBody(west, north)), nil
		}
		c := s.client(&ClientOptions{PreferredRegions: []string{"North Europe"}}).Container("db", "c")
		if err := readOne(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got := s.accountReads[1].URL.Host; len(s.accountReads) != 2 || got != "games-northeurope.documents.azure.com:443" {
			t.Errorf("%d reads, the last at %s", len(s.accountReads), got)
		}
	})
}

// Concurrent first requests read the account once.
func TestAccountIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, ok("{}"))
		s.account = func(int, *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return reply(200, accountBody(west, north)), nil
		}
		c := s.container()
		done := make(chan error)
		for range 10 {
			go func() { done <- readOne(t.Context(), c) }()
		}
		for range 10 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if len(s.accountReads) != 1 || len(s.requests) != 10 {
			t.Errorf("%d account reads, %d requests", len(s.accountReads), len(s.requests))
		}
	})
}

// Requests that waited for the first read share its failure instead of retrying
// one after the other; a later request retries.
func TestAccountFailureIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, ok("{}"))
		s.account = func(n int, _ *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			if n == 0 {
				return reply(403, ""), nil
			}
			return reply(200, accountBody(west, north)), nil
		}
		c := s.container()
		done := make(chan error)
		for range 10 {
			go func() { done <- readOne(t.Context(), c) }()
		}
		for range 10 {
			if err := <-done; !isStatus(err, 403) {
				t.Error(err)
			}
		}
		if len(s.accountReads) != 1 {
			t.Errorf("%d account reads", len(s.accountReads))
		}
		if err := readOne(t.Context(), c); err != nil {
			t.Error(err)
		}
	})
}

// If the context of the request that reads the account ends, the waiting
// requests do not fail.
func TestCanceledAccountReadDoesNotFailWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, ok("{}"))
		s.account = func(n int, req *http.Request) (*http.Response, error) {
			if n == 0 {
				return hang(n, req)
			}
			return reply(200, accountBody(west, north)), nil
		}
		c := s.container()
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := make(chan error)
		go func() { first <- readOne(brief, c) }()
		synctest.Wait()
		if err := readOne(t.Context(), c); err != nil {
			t.Error(err)
		}
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestAccount(t *testing.T) {
	s := twoRegions(t)
	got, err := s.client(nil).Account(t.Context())
	want := Account{
		ID: "games", Consistency: "Session",
		WriteRegions: []Region{{"West US", west}},
		ReadRegions:  []Region{{"West US", west}, {"North Europe", north}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
