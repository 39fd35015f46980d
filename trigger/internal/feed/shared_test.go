package feed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

func TestFunctionsShareThePagesOfOneRange(t *testing.T) {
	withAccount(t, func(t *testing.T, a *account) {
		readers, shared := a.readers(NewBudget(1<<20), 3, false)
		for _, f := range readers {
			f.expect("") // joins; nothing was read before it joined
		}
		a.expectReads(3)
		time.Sleep(5 * time.Second)
		a.write(a.writer, "a", "b", "c", "d", "e")
		ends := map[int]string{}
		for i, f := range readers { // one after the other
			position := ""
			for _, ids := range [][]string{{"a", "b"}, {"c", "d"}, {"e"}} {
				position = f.expect(position, ids...).Continuation
			}
			ends[i] = position
		}
		a.expectReads(3)
		if ends[0] != ends[1] || ends[1] != ends[2] || len(shared.budget.kept) != 0 {
			t.Errorf("ends %v, and %d pages are kept that all have", ends, len(shared.budget.kept))
		}
		readers[1].expect("", "a", "b") // again: its bytes are not kept any more
		a.expectReads(1)
		a.closeAll(shared, readers...)
	})
}

// A range that another host has had meanwhile does not get an older version of a document than
// that host may have delivered.
func TestPageFromBeforeAnotherHostIsReadAgain(t *testing.T) {
	withAccount(t, func(t *testing.T, a *account) {
		readers, shared := a.readers(NewBudget(1<<20), 2, false)
		for _, f := range readers {
			f.expect("")
		}
		time.Sleep(5 * time.Second) // longer than an answer without changes serves
		a.write(a.writer, "a", "b")
		readers[0].expect("", "a", "b") // kept for the other one
		time.Sleep(30 * time.Second)
		a.write(a.writer, "a")
		a.expectReads(3)
		readers[1].budget.ShareFrom(readers[1].reserved, time.Now())
		position := readers[1].expect("", "b", "a").Continuation
		a.expectReads(1)
		readers[0].budget.ShareFrom(readers[0].reserved, time.Now())
		if got := readers[0].expect("", "b", "a").Continuation; got != position {
			t.Errorf("the newer page ends at %s and not at %s", got, position)
		}
		a.expectReads(0)
		a.closeAll(shared, readers...)
	})
}

func TestDrainsShareAnswersOfRangesThatOthersReachLater(t *testing.T) {
	withAccount(t, func(t *testing.T, a *account) {
		a.write(a.writer, "a")
		readers, shared := a.readers(NewBudget(1<<20), 2, true)
		position := readers[0].expect("", "a").Continuation
		readers[0].expect(position)
		readers[0].close()
		readers[1].expect("", "a")
		readers[1].expect(position)
		a.expectReads(2)
		a.closeAll(shared, readers[1])
	})
}

func TestAnswerWithoutChangesServesEachFunctionOnce(t *testing.T) {
	withAccount(t, func(t *testing.T, a *account) {
		readers, shared := a.readers(NewBudget(1<<20), 2, false)
		one, two := readers[0], readers[1]
		two.expect("")
		one.expect("")
		a.expectReads(2)
		time.Sleep(3 * time.Second)
		_, reading, err := two.read(t.Context(), "")
		must(t, err)
		if reading.age() != 3*time.Second {
			t.Errorf("the answer is %v old, and its reader is told %v", 3*time.Second, reading.age())
		}
		a.expectReads(0)
		a.write(a.writer, "a")
		two.expect("", "a") // polls again, and the other one gets its page
		one.expect("", "a")
		a.expectReads(1)
		a.closeAll(shared, one, two)
	})
}

func TestAnswerWithoutChangesIsYoungerThanThePollDelay(t *testing.T) {
	withAccount(t, func(t *testing.T, a *account) {
		readers, shared := a.readers(NewBudget(1<<20), 2, false)
		readers[1].expect("")
		readers[0].expect("")
		a.expectReads(2)
		time.Sleep(5 * time.Second)
		a.write(a.writer, "a")
		readers[1].expect("", "a")
		a.expectReads(1)
		a.closeAll(shared, readers...)
	})
}

func TestAnswerWithoutChangesEndsWithANewerSession(t *testing.T) {
	for name, show := range map[string]func(a *account, other *functionReader, position string){
		"own write": func(a *account, _ *functionReader, _ string) { a.write(a.container, "a") },
		"read of others": func(a *account, other *functionReader, position string) {
			a.write(a.writer, "a")
			other.expect(position, "a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			withAccount(t, func(t *testing.T, a *account) {
				a.write(a.writer, "first")
				readers, shared := a.readers(NewBudget(1<<20), 2, false)
				other, others := a.readers(NewBudget(1<<20), 1, false)
				position := readers[0].expect("", "first").Continuation
				readers[1].expect("", "first")
				other[0].expect("", "first")
				readers[0].expect(position)
				show(a, other[0], position)
				readers[1].expect(position, "a")
				a.closeAll(others, other...)
				a.closeAll(shared, readers...)
			})
		})
	}
}

func TestWaitingReaderReadsOnItsOwnIfTheFirstIsCancelled(t *testing.T) {
	withAccount(t, func(t *testing.T, a *account) {
		a.write(a.writer, "a")
		readers, shared := a.readers(NewBudget(1<<20), 3, false)
		a.setAnswer(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		var running sync.WaitGroup
		first, cancelFirst := context.WithCancel(t.Context())
		second, cancelSecond := context.WithCancel(t.Context())
		running.Go(func() {
			if _, _, err := readers[0].read(first, ""); !errors.Is(err, context.Canceled) {
				t.Errorf("first: %v", err)
			}
		})
		synctest.Wait()
		stopped := make(chan error, 1)
		running.Go(func() { _, _, err := readers[1].read(second, ""); stopped <- err })
		running.Go(func() { readers[2].expect("", "a") })
		synctest.Wait()
		a.expectReads(1)
		cancelSecond()
		synctest.Wait()
		select {
		case err := <-stopped:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("second: %v", err)
			}
		default:
			t.Error("a reader that waits for another one's request does not stop when it is told to")
		}
		a.setAnswer(nil)
		cancelFirst()
		running.Wait()
		a.expectReads(1)
		a.closeAll(shared, readers...)
	})
}

func TestWaitingReadersGetTheErrorOfTheService(t *testing.T) {
	withAccount(t, func(t *testing.T, a *account) {
		readers, shared := a.readers(NewBudget(1<<20), 2, false)
		answer := make(chan struct{})
		a.setAnswer(func(r *http.Request) (*http.Response, error) {
			<-answer
			return &http.Response{StatusCode: 410, Header: http.Header{"X-Ms-Substatus": {"1002"}}, Body: http.NoBody, Request: r}, nil
		})
		var running sync.WaitGroup
		for _, f := range readers {
			running.Go(func() {
				if _, _, err := f.read(t.Context(), ""); cosmos.Classify(err) != cosmos.OutcomeRangeGone {
					t.Errorf("read: %v", err)
				}
			})
		}
		synctest.Wait()
		close(answer)
		running.Wait()
		a.expectReads(1)
		a.closeAll(shared, readers...)
	})
}

func TestRepeatedAnswerDoesNotComeFromMemory(t *testing.T) {
	withAccount(t, func(t *testing.T, a *account) {
		a.write(a.writer, "a")
		readers, shared := a.readers(NewBudget(1<<20), 2, false)
		readers[1].expect("", "a")
		position := readers[0].expect("", "a").Continuation
		a.expectReads(2)
		a.write(a.writer, "b")
		a.setAnswer(func(r *http.Request) (*http.Response, error) {
			resp, err := a.Account.Do(r)
			if err == nil {
				resp.Header.Set("Etag", position)
			}
			return resp, err
		})
		readers[0].expect(position, "b")
		a.setAnswer(nil)
		if page := readers[1].expect(position, "b"); page.Continuation == position {
			t.Error("an answer that its reader rejects is given to the other one")
		}
		a.expectReads(2)
		a.closeAll(shared, readers...)
	})
}

func TestKeptPagesGiveWayToRangesThatRead(t *testing.T) {
	withAccount(t, func(t *testing.T, a *account) {
		for i := range 40 {
			a.write(a.writer, fmt.Sprintf("%02d", i))
		}
		const limit = 40_000
		b := NewBudget(limit)
		readers, shared := a.readers(b, 2, false)
		slow, fast := readers[0], readers[1]
		position := slow.expect("", "00", "01").Continuation
		for range 19 { // its pages wait for the slow one
			page, _, err := fast.read(t.Context(), position)
			must(t, err)
			position = page.Continuation
			fast.budget.ReleasePage(page, fast.reserved)
			fast.pages = nil
		}
		kept := len(shared.budget.kept)
		if kept < 3 || b.keptBytes > limit/2 {
			t.Fatalf("%d pages of %d bytes are kept", kept, b.keptBytes)
		}
		other := b.Join()
		reading := reserve(t, b, other, 2)
		if !reading.Admit(limit - int(b.usedBytes) - 1000) {
			t.Error("kept pages stand in the way of a range")
		}
		if len(shared.budget.kept) > 1 || b.UsedBytes() > limit {
			t.Errorf("%d pages are kept, %d bytes used of %d", len(shared.budget.kept), b.UsedBytes(), limit)
		}
		reading.Cancel()
		b.Leave(other)
		a.closeAll(shared, readers...)
	})
}

func TestKeptPagesAreDroppedAfterAMinute(t *testing.T) {
	withAccount(t, func(t *testing.T, a *account) {
		a.write(a.writer, "a")
		b := NewBudget(1 << 20)
		readers, shared := a.readers(b, 2, true)
		position := readers[0].expect("", "a").Continuation
		time.Sleep(keptFor + time.Second)
		readers[0].expect(position)
		readers[1].expect("", "a")
		a.expectReads(3)
		a.closeAll(shared, readers...)
	})
}

func TestLaggingReaderKeepsNothingForOneThatIsAhead(t *testing.T) {
	withAccount(t, func(t *testing.T, a *account) {
		a.write(a.writer, "a", "b", "c", "d")
		readers, shared := a.readers(NewBudget(1<<20), 2, false)
		position := readers[0].expect("", "a", "b").Continuation
		readers[0].expect(readers[0].expect(position, "c", "d").Continuation)
		readers[1].expect("", "a", "b")
		readers[1].expect(position, "c", "d")
		if len(shared.budget.kept) != 0 {
			t.Errorf("%d answers are kept for a function that has read them", len(shared.budget.kept))
		}
		a.closeAll(shared, readers...)
	})
}

// run takes the steps of a reader until it has ended.
func run(ctx context.Context, r *Reader, pages chan<- *Page) error {
	for {
		wait, err := r.Step(ctx, pages)
		if err != nil {
			return err
		}
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// A reader that waits for the request of another function does not fail, however often its
// own time ends: it does not give up its range.
func TestWaitForAnotherFunctionIsNoFailure(t *testing.T) {
	withAccount(t, func(t *testing.T, a *account) {
		a.write(a.writer, "a")
		readers, shared := a.readers(NewBudget(1<<20), 2, false)
		answer := make(chan struct{})
		a.setAnswer(func(r *http.Request) (*http.Response, error) {
			<-answer
			return a.Account.Do(r)
		})
		var running sync.WaitGroup
		running.Go(func() { readers[0].expect("", "a") })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		pages := make(chan *Page)
		running.Go(func() {
			reader := readers[1].reader(10 * time.Second)
			if err := run(ctx, reader, pages); !errors.Is(err, context.Canceled) {
				t.Errorf("the reader has ended: %v", err)
			}
			close(pages)
		})
		time.Sleep(10 * time.Minute)
		close(answer)
		page, open := <-pages
		if !open || len(page.Items) != 1 {
			t.Fatal("no page came")
		}
		readers[1].pages = append(readers[1].pages, page)
		cancel()
		running.Wait()
		a.closeAll(shared, readers...)
	})
}
