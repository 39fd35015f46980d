package cosmos

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// movingRange is an account whose two regions are West US and North Europe, with a container of
// two ranges, of which the second holds the key of [readOne] and [writeOne].
type movingRange struct {
	*service
	container *Container
	writer    string         // region that takes the writes of the second range: "westus" or "northeurope"
	opens     time.Time      // when North Europe takes them; zero is never
	answers   map[string]any // of a region to requests for documents, instead of the usual ones
}

func inMovingRange(t *testing.T, fn func(t *testing.T, r *movingRange)) {
	synctest.Test(t, func(t *testing.T) {
		r := &movingRange{service: twoRegions(t), writer: "westus", answers: map[string]any{}}
		r.service.answer = r.answer
		r.container = r.client(nil).Container("db", "c")
		r.container.PinToWriteRegion(time.Minute)
		if _, err := r.container.Properties(t.Context()); err != nil {
			t.Fatal(err)
		}
		fn(t, r)
	})
}

func (r *movingRange) answer(_ int, req *http.Request) (*http.Response, error) {
	region, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Host, "games-"), ".")
	switch {
	case strings.HasSuffix(req.URL.Path, "/pkranges"):
		if req.Header.Get("If-None-Match") != "" {
			return reply(304, "", "Etag", "1"), nil
		}
		return reply(200, `{"PartitionKeyRanges":[{"id":"0","minInclusive":"","maxExclusive":"20"},{"id":"1","minInclusive":"20","maxExclusive":"FF"}]}`, "Etag", "1"), nil
	case !strings.Contains(req.URL.Path, "/docs"):
		return reply(200, `{"id":"c","_rid":"r","partitionKey":{"paths":["/id"],"version":2}}`), nil
	}
	switch answer := r.answers[region].(type) {
	case error:
		return nil, answer
	case func() *http.Response:
		return answer(), nil
	case chan struct{}:
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	isOpen := !r.opens.IsZero() && time.Now().After(r.opens) && region == "northeurope"
	if req.Method != http.MethodGet && req.Header.Get(headerIsQuery) == "" && region != r.writer && !isOpen {
		return reply(403, "", "x-ms-substatus", "3"), nil
	}
	return reply(200, `{"Documents":[]}`), nil
}

// sent calls and returns the regions that were asked for documents.
func (r *movingRange) sent(call func(context.Context, *Container) error) string {
	r.t.Helper()
	r.requests = nil
	if err := call(r.t.Context(), r.container); err != nil {
		r.t.Error(err)
	}
	var regions []string
	for i, host := range r.hosts() {
		if strings.Contains(r.requests[i].URL.Path, "/docs") {
			regions = append(regions, host)
		}
	}
	return strings.Join(regions, " ")
}

func (r *movingRange) wantSent(call func(context.Context, *Container) error, want string) {
	r.t.Helper()
	if got := r.sent(call); got != want {
		r.t.Errorf("sent to %s, want %s", got, want)
	}
}

// A refused write tries the next region at once, where later requests of its range begin.
func TestRequestsFollowARangeThatFailsOver(t *testing.T) {
	inMovingRange(t, func(t *testing.T, r *movingRange) {
		r.wantSent(writeOne, "westus")
		if r.container.Failovers() != 0 {
			t.Error("a failover without a sign")
		}
		r.writer = "northeurope"
		r.wantSent(readOne, "westus")
		began := time.Now()
		r.wantSent(writeOne, "westus northeurope")
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the write waited %v", waited)
		}
		r.wantSent(readOne, "northeurope")
		r.wantSent(writeOne, "northeurope")
		if r.container.Failovers() != 1 || !r.container.FailedOver(onePK).Equal(began) {
			t.Errorf("%d failovers, the last one at %s", r.container.Failovers(), r.container.FailedOver(onePK))
		}
		if other := r.container.FailedOver(otherPK); !other.IsZero() {
			t.Errorf("the other range has failed over at %s", other)
		}
		// From time to time a write asks whether the range has gone back. Reads do not: the answer
		// of a region that only reads looks like any other.
		time.Sleep(regionPenalty)
		r.wantSent(readOne, "northeurope")
		r.wantSent(writeOne, "westus northeurope")
		r.wantSent(writeOne, "northeurope")
		time.Sleep(regionPenalty)
		r.writer = "westus"
		r.wantSent(writeOne, "westus")
		r.wantSent(readOne, "westus")
		if r.container.Failovers() != 2 {
			t.Errorf("%d failovers, want 2", r.container.Failovers())
		}
	})
}

// A list asks each range in its region.
func TestQueriesFollowRangesThatFailOver(t *testing.T) {
	inMovingRange(t, func(t *testing.T, r *movingRange) {
		list := func(ctx context.Context, c *Container) (err error) {
			for _, err = range c.Query(ctx, Query{Text: "SELECT 1"}) {
			}
			return err
		}
		r.wantSent(list, "westus")
		r.writer = "northeurope"
		r.wantSent(writeOne, "westus northeurope")
		r.wantSent(list, "westus northeurope")
	})
}

// The region that a list begins with may lack this client's own writes: another one answers. A session
// that a failover has lost ends.
func TestListIsNotBehindOwnWrites(t *testing.T) {
	inMovingRange(t, func(t *testing.T, r *movingRange) {
		isLost := false
		r.service.answer = func(n int, req *http.Request) (*http.Response, error) {
			hasSession := strings.HasPrefix(req.Header.Get(headerSessionToken), "1:7#10#")
			if req.Header.Get(headerIsQuery) != "" && hasSession && (isLost || strings.HasPrefix(req.URL.Host, "games-westus")) {
				return reply(404, "", "x-ms-substatus", "1002"), nil
			}
			resp, err := r.answer(n, req)
			if req.Method == http.MethodPut && resp.StatusCode == 200 {
				resp.Header.Set(headerSessionToken, "1:7#10#1=9")
			}
			return resp, err
		}
		list := func(ctx context.Context, c *Container) (err error) {
			for _, err = range c.Query(ctx, Query{Text: "SELECT 1"}) {
			}
			return err
		}
		r.writer = "northeurope"
		r.wantSent(writeOne, "westus northeurope")
		r.container.placements.read("1", "games-westus.documents.azure.com", true)
		r.wantSent(list, "westus westus northeurope")
		isLost = true
		if got := r.sent(list); !strings.HasSuffix(got, "westus northeurope westus northeurope westus") {
			t.Errorf("a list after the session was lost was sent to %s", got)
		}
	})
}

func TestRegionThatIsSilentIsLeft(t *testing.T) {
	for name, silence := range map[string]any{"no answer": make(chan struct{}), "no connection": errRefused} {
		t.Run(name, func(t *testing.T) {
			inMovingRange(t, func(t *testing.T, r *movingRange) {
				r.answers["westus"], r.writer = silence, "northeurope"
				began := time.Now()
				r.wantSent(readOne, "westus northeurope")
				r.wantSent(writeOne, "northeurope")
				if waited := time.Since(began); waited > quickTimeout {
					t.Errorf("waited %v", waited)
				}
			})
		})
	}
}

// A region is not left for one answer that is lost, and asking another one by mistake is harmless.
func TestLostAnswerIsNoFailover(t *testing.T) {
	inMovingRange(t, func(t *testing.T, r *movingRange) {
		r.answers["westus"] = errReset
		for range lostAnswers {
			if err := writeOne(t.Context(), r.container); err == nil {
				t.Error("no error")
			}
		}
		delete(r.answers, "westus")
		r.wantSent(writeOne, "northeurope westus")
		r.wantSent(writeOne, "westus")
		if r.container.Failovers() != 0 {
			t.Errorf("%d failovers", r.container.Failovers())
		}
	})
}

// While all regions refuse a write, it is repeated once a second, and the account is read again.
func TestWriteWaitsForAFailover(t *testing.T) {
	inMovingRange(t, func(t *testing.T, r *movingRange) {
		r.writer = "none"
		r.opens = time.Now().Add(89500 * time.Millisecond)
		began := time.Now()
		if got := r.sent(writeOne); strings.Count(got, "northeurope") != 91 {
			t.Errorf("%s was asked %d times", "northeurope", strings.Count(got, "northeurope"))
		}
		if waited := time.Since(began); waited != 90*time.Second || len(r.accountReads) != 91 {
			t.Errorf("waited %v, read the account %d times", waited, len(r.accountReads))
		}
	})
}

// A rise of the session's version is a sign, too, unless the account has one region.
func TestVersionOfTheSessionIsASign(t *testing.T) {
	for regions, second := range map[int64]string{1: west, 2: north} {
		synctest.Test(t, func(t *testing.T) {
			s := newService(t, ok("{}", headerSessionToken, "0:1#5"), ok("{}", headerSessionToken, "0:2#5"), ok("{}", headerSessionToken, "0:1#6"))
			s.account = func(int, *http.Request) (*http.Response, error) { return reply(200, accountBody(west, second)), nil }
			c := s.container()
			for range 3 {
				if err := readOne(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			if got := c.Failovers(); got != regions-1 {
				t.Errorf("%d regions: %d failovers", regions, got)
			}
		})
	}
}

// otherPK is a key of the first range of a [movingRange].
var otherPK = NewPartitionKey("d")

// A gateway that denies or throttles a write does not show that the range takes writes there.
func TestDenialIsNoFailover(t *testing.T) {
	for name, denial := range map[string]func() *http.Response{"403": status(403), "401": status(401)} {
		t.Run(name, func(t *testing.T) {
			inMovingRange(t, func(t *testing.T, r *movingRange) {
				r.wantSent(writeOne, "westus")
				r.answers["westus"], r.answers["northeurope"] = errRefused, denial
				if err := writeOne(t.Context(), r.container); err == nil {
					t.Error("no error")
				}
				delete(r.answers, "westus")
				r.wantSent(writeOne, "westus")
				if r.container.Failovers() != 0 {
					t.Errorf("%d failovers", r.container.Failovers())
				}
			})
		})
	}
}
