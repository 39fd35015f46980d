package page

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger"
)

// pageOf returns a page with this list of dead letters.
func pageOf(t *testing.T, letters func(context.Context, LetterQuery) (LetterPage, error)) *Page {
	t.Helper()
	p, err := New(Options{App: "shop", Token: "right", Recorder: &Recorder{}, Source: Source{
		Look: func(context.Context) State { return State{} }, DeadLetters: letters,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// The API asks for exactly the page, and passes on what the stores say of it.
func TestLettersArePagedByToken(t *testing.T) {
	var asked LetterQuery
	p := pageOf(t, func(_ context.Context, q LetterQuery) (LetterPage, error) {
		if asked = q; q.After == "foreign" {
			return LetterPage{}, errors.New("no token")
		}
		return LetterPage{Records: []trigger.DeadLetter{{ID: "a", Error: "first\nsecond"}}, Next: "token-2", Searched: 300, Dead: 1000, Postponed: 7, Stopped: true}, nil
	})
	l := decode[items[letterRow]](t, ask(t, p, "GET", "/api/v1/letters?function=orders&range=3&key=k&error=boom&after=token-1&limit=20", "", nil), 200)
	if asked != (LetterQuery{Function: "orders", Range: "3", Key: "k", Error: "boom", After: "token-1", Limit: 20}) {
		t.Errorf("the stores are asked %+v", asked)
	}
	if len(l.Items) != 1 || l.Items[0].Error != "first" || l.Next != "token-2" || l.Searched != 300 || l.Total != 1000 || l.Postponed != 7 || !l.Stopped {
		t.Errorf("the answer is %+v", l)
	}
	if f := decode[failure](t, ask(t, p, "GET", "/api/v1/letters?after=foreign", "", nil), 400); f.Message != "no token" {
		t.Errorf("a foreign token: %+v", f)
	}
	for i := range 3 * maxLetterLists {
		decode[items[letterRow]](t, ask(t, p, "GET", fmt.Sprint("/api/v1/letters?key=", i), "", nil), 200)
	}
	if n := len(p.letters.byQuery); n > maxLetterLists {
		t.Errorf("%d lists are kept", n)
	}
}

// The status does not wait for a store with many records: the number of dead letters is unknown
// until it has answered.
func TestStatusDoesNotWaitForTheStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pageOf(t, func(context.Context, LetterQuery) (LetterPage, error) {
			time.Sleep(5 * time.Second)
			return LetterPage{Dead: 100_000}, nil
		})
		began := time.Now()
		for range 2 {
			if st := decode[status](t, ask(t, p, "GET", "/api/v1/status", "", nil), 200); st.Health.Letters != -1 || time.Since(began) > 0 {
				t.Errorf("%d dead letters after %v", st.Health.Letters, time.Since(began))
			}
		}
		time.Sleep(5*time.Second + 1)
		synctest.Wait()
		if st := decode[status](t, ask(t, p, "GET", "/api/v1/status", "", nil), 200); st.Health.Letters != 100_000 {
			t.Errorf("%d dead letters are counted", st.Health.Letters)
		}
	})
}

// While the stores change all the time, the process reads a large list for a bounded share of the
// time.
func TestLargeListsAreNotReadAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		p := pageOf(t, func(context.Context, LetterQuery) (LetterPage, error) {
			reads.Add(1)
			time.Sleep(5 * time.Second)
			return LetterPage{}, nil
		})
		for range 400 { // 100 s
			p.options.Recorder.lettersChanged("")
			_, _ = p.newestLetters(t.Context())
			time.Sleep(streamEvery)
		}
		if n := reads.Load(); n < 4 || n > 6 {
			t.Errorf("a list that takes 5 s was read %d times in 100 s", n)
		}
	})
}
