package feed

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/cosmos"
)

// pageOf returns a page of some changes that takes changeBytes for each.
func pageOf(items int) *Page { return &Page{Items: make([]cosmos.Item, items)} }

func reserve(t *testing.T, b *Budget, reserved *ReservedBytes, maxItems int) *Reading {
	t.Helper()
	r, err := b.ReserveRead(t.Context(), reserved, maxItems)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReadsAreSmallerIfLittleIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1000 * changeBytes)
		first, second, third := b.Join(), b.Join(), b.Join()
		if r := reserve(t, b, first, 400); r.Items != 400 || !r.Admit(400*changeBytes) {
			t.Fatalf("first read of %d changes, or not admitted", r.Items)
		} else {
			r.Keep(pageOf(400))
		}
		if r := reserve(t, b, second, 400); r.Items != 333 {
			t.Errorf("second range reads %d changes, want a third of the budget", r.Items)
		} else {
			r.Keep(pageOf(333))
		}
		if r := reserve(t, b, third, 400); r.Items != 267 {
			t.Errorf("third range reads %d changes, want the rest of the budget", r.Items)
		}
		if used := b.UsedBytes(); used != 1000*changeBytes {
			t.Errorf("%d bytes used", used)
		}
	})
}

func TestRangeWithoutPageReadsOneTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100 * changeBytes)
		hungry, other := b.Join(), b.Join()
		page := pageOf(100)
		reserve(t, b, hungry, 100).Keep(page)
		r := reserve(t, b, other, 100)
		if r.Items != 1 || !r.Admit(5000*changeBytes) {
			t.Errorf("range without a page reads %d changes, or its transaction is not admitted", r.Items)
		}
		r.Keep(pageOf(5000))

		waiting, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := b.ReserveRead(waiting, hungry, 100); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("range with a page reads ahead of a spent budget: %v", err)
		}
		began := time.Now()
		time.AfterFunc(time.Second, func() { b.ReleasePage(page, hungry) })
		if r := reserve(t, b, hungry, 100); time.Since(began) > time.Second+turnSpread || r.Items != 1 {
			t.Errorf("%d changes after %v, want one when the page is released", r.Items, time.Since(began))
		}
	})
}

func TestAnswerThatDoesNotFitIsReadAgainInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1000)
		other := b.Join()
		reserve(t, b, other, 10).Keep(pageOf(2)) // 800
		reserved, asked := b.Join(), []int{}
		for {
			r := reserve(t, b, reserved, 100)
			asked = append(asked, r.Items)
			if r.Admit(50 * r.Items) {
				break
			}
			r.Cancel()
		}
		if len(asked) > 2 || asked[len(asked)-1] != 1 && asked[len(asked)-1] != 4 {
			t.Errorf("reads of %v changes of 50 bytes, with 200 left", asked)
		}
		if reserved.pages != 1 {
			t.Errorf("%d pages", reserved.pages)
		}
	})
}

// Whatever ranges read and release, the bytes in memory exceed the budget by at most
// one transaction of each range, and all of them come back.
func TestBudgetHoldsForAnySequence(t *testing.T) {
	const limit, ranges, largest = 100_000, 20, 30 // changes in a transaction at most
	random := rand.New(rand.NewPCG(1, 2))
	b := NewBudget(limit)
	held := make([][]*Page, ranges)
	reservations := make([]*ReservedBytes, ranges)
	for i := range reservations {
		reservations[i] = b.Join()
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20_000 {
		i := random.IntN(ranges)
		if random.IntN(3) == 0 && len(held[i]) > 0 {
			b.ReleasePage(held[i][0], reservations[i])
			held[i] = held[i][1:]
			continue
		}
		r, err := b.ReserveRead(done, reservations[i], 100) // waits for nothing
		if err != nil {
			if len(held[i]) == 0 {
				t.Fatal("range without a page has to wait")
			}
			continue
		}
		items := r.Items + random.IntN(largest)
		switch {
		case random.IntN(4) == 0:
			page := &Page{NotModified: true}
			r.Keep(page)
			b.ReleasePage(page, reservations[i])
		case random.IntN(4) == 0 || !r.Admit(items*changeBytes):
			r.Cancel()
		default:
			page := pageOf(items)
			r.Keep(page)
			held[i] = append(held[i], page)
		}
		if used, bound := b.UsedBytes(), int64(limit+ranges*largest*changeBytes); used > bound {
			t.Fatalf("%d bytes used, at most %d", used, bound)
		}
	}
	for i, pages := range held {
		for _, page := range pages {
			b.ReleasePage(page, reservations[i])
		}
		b.Leave(reservations[i])
	}
	if b.UsedBytes() != 0 || b.ranges != 0 {
		t.Errorf("%d bytes of %d ranges are never released", b.UsedBytes(), b.ranges)
	}
}

// Two ranges wait for one release. They try after each other, so that the order of their
// goroutines does not decide which of them reads how much.
func TestRangesThatWaitForOneReleaseTryInAnOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100 * changeBytes)
		page := pageOf(100)
		holder := b.Join("holder")
		reserve(t, b, holder, 100).Keep(page)
		began := time.Now()
		waits := make(chan time.Duration, 2)
		for _, name := range []string{"a", "b"} {
			reserved := b.Join(name)
			small := pageOf(1)
			reserve(t, b, reserved, 1).Keep(small) // a range with a page waits
			go func() {
				reserve(t, b, reserved, 20)
				waits <- time.Since(began)
			}()
		}
		time.Sleep(time.Second)
		b.ReleasePage(page, holder)
		if first, second := <-waits, <-waits; first <= time.Second || first == second {
			t.Errorf("the ranges continue after %v and %v", first, second)
		}
	})
}
