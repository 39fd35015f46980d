package lease

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/emulator"
	"halley/trigger/internal/finished"
)

func TestCheckpointIsWrittenAtOnceAndReleased(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		var checkpoints []string
		held.OnCheckpoint = func(c string) { checkpoints = append(checkpoints, c) }
		stop := b.run(held)
		held.Advance(`"5"`, time.Now())
		must(t, held.Flush(t.Context()))
		if l := b.leases(s)["0"]; l.continuation != `"5"` || held.Position() != `"5"` || l.owner != "a" {
			t.Errorf("stored %+v", l)
		}
		held.Advance(`"6"`, time.Time{}) // no write before the release
		stop()
		must(t, held.Release(t.Context()))
		l := b.leases(s)["0"]
		if l.continuation != `"6"` || l.owner != "" || l.OwnedByHalley() && l.properties[incarnationProperty] != "" || l.Epoch() != held.Epoch() {
			t.Errorf("released %+v", l)
		}
		if len(checkpoints) != 2 || held.Err() != nil {
			t.Errorf("checkpoints %v, error %v", checkpoints, held.Err())
		}
	})
}

// A position that moves while a write begins is in it, with what is finished behind it.
func TestPositionAndFinishedChangesAreOneSnapshot(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		binding := finished.Binding{Continuation: `"6"`, Epoch: held.Epoch()}
		value := finished.Value{Binding: binding, Reached: 9, Marks: map[uint64]int64{1: 8}}.Encode()
		held.Snapshot = func() (string, string) { return binding.Continuation, value }
		stop := b.run(held)
		held.Advance(`"5"`, time.Now())
		time.Sleep(time.Second)
		if l := b.leases(s)["0"]; l.continuation != `"6"` || l.Finished() != value {
			t.Errorf("stored at %s with %q", l.continuation, l.Finished())
		}
		stop()
	})
}

func TestIdleLeaseIsRenewed(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		stop := b.run(b.acquire(s, "0"))
		time.Sleep(10 * time.Minute)
		if l := b.leases(s)["0"]; l.Free(s.Now(), time.Minute) {
			t.Errorf("expired: written %v, now %v", l.written, s.Now())
		}
		stop()
	})
}

// A delivery must not begin between the loss and the moment when the owner
// notices it.
func TestWaitTrustedReturnsLossAtOnce(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		stop := b.run(held)
		must(t, held.WaitTrusted(t.Context()))
		b.steal(s, "0", "dotnet")
		held.Advance(`"9"`, time.Now())
		<-held.lostSignal
		for name, wait := range map[string]func(context.Context) error{
			"WaitTrusted": held.WaitTrusted, "ConfirmOwnership": held.ConfirmOwnership, "Flush": held.Flush,
		} {
			if err := wait(t.Context()); !errors.Is(err, ErrLost) {
				t.Errorf("%s after the loss: %v", name, err)
			}
		}
		if l := b.leases(s)["0"]; l.owner != "dotnet" || l.continuation != `"start"` || !errors.Is(held.Err(), ErrLost) {
			t.Errorf("lease written after its loss: %+v, error %v", l, held.Err())
		}
		stop()
	})
}

// A failover brings back the version of before the acquisition. The owner goes on if nobody else can
// have acquired the lease.
func TestLostAcquisitionIsWrittenAgain(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(back *Lease)
		pause   time.Duration // before the next write
		isFound bool          // that the owner goes on
	}{
		{"free", func(*Lease) {}, 0, true},
		{"its own", func(l *Lease) { l.owner, l.properties[incarnationProperty] = "a", "a/process" }, 0, true},
		{"another one's", func(l *Lease) { l.owner, l.properties[incarnationProperty] = "b", "b/process" }, 0, false},
		{"another process's of this name", func(l *Lease) { l.owner, l.properties[incarnationProperty] = "a", "a/before" }, 0, false},
		{"of a later epoch", func(l *Lease) { l.properties[epochProperty] = "99999999999" }, 0, false},
		{"paused", func(l *Lease) { l.setPause(Pause{Since: time.Now()}) }, 0, false},
		{"retired", func(l *Lease) { l.properties[tombstoneProperty] = "1" }, 0, false},
		{"found after trust has ended", func(*Lease) {}, time.Minute, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			withTestbedOf(t, &emulator.Options{Regions: []string{"West Europe", "North Europe"}}, 1, func(t *testing.T, b *testbed) {
				s := b.prepared("a")
				back := b.leases(s)["0"].clone()
				time.Sleep(5 * time.Second) // a later epoch
				held := b.acquire(s, "0")
				test.change(back)
				back.etag = b.leases(s)["0"].etag
				must(t, s.store.replaceLease(t.Context(), back))
				time.Sleep(test.pause)
				stop := b.run(held)
				err := held.ConfirmOwnership(t.Context())
				if l := b.leases(s)["0"]; test.isFound && (err != nil || l.ownership() != held.acquiredLease.ownership()) {
					t.Errorf("error %v; the lease is %q's in epoch %d, want %d", err, l.owner, l.Epoch(), held.Epoch())
				}
				if !test.isFound && !errors.Is(err, ErrLost) {
					t.Errorf("error %v, want %v", err, ErrLost)
				}
				stop()
			})
		})
	}
}

func TestDeletedLeaseIsLost(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		must(t, s.store.deleteLease(t.Context(), held.lease))
		stop := b.run(held)
		if err := held.ConfirmOwnership(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("confirmed with %v", err)
		}
		stop()
		must(t, held.Release(t.Context()))
	})
}

func TestWaitTrustedWaitsForWriteWhenTrustHasEnded(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		stop := b.run(held)
		remove := b.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Status: 503})
		time.Sleep(2 * time.Minute)
		trusted := make(chan error, 1)
		go func() { trusted <- held.WaitTrusted(t.Context()) }()
		time.Sleep(time.Minute)
		select {
		case err := <-trusted:
			t.Fatalf("trusted three minutes after the last write: %v", err)
		default:
		}
		remove()
		must(t, <-trusted)
		stop()
	})
}

// The number of writes must not depend on timing: a write that is due is
// completed before the one that confirms.
func TestConfirmOwnershipWritesAfterTheCall(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		stop := b.run(held)
		writes := 0
		b.setBefore(func(r *http.Request) {
			if r.Method == http.MethodPut {
				writes++
			}
		})
		must(t, held.ConfirmOwnership(t.Context()))
		if writes != 1 {
			t.Errorf("%d writes for an idle lease, want 1", writes)
		}
		held.Advance(`"7"`, time.Now())
		must(t, held.ConfirmOwnership(t.Context()))
		if writes != 2 || held.Position() != `"7"` {
			t.Errorf("%d writes in all, position %s", writes, held.Position())
		}
		stop()
	})
}

func TestWriteAdoptsOwnLeaseAfterLostAnswer(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		stop := b.run(held)
		b.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Drop: emulator.DropAfter, Count: 1})
		held.Advance(`"5"`, time.Now())
		must(t, held.Flush(t.Context()))
		if l := b.leases(s)["0"]; l.continuation != `"5"` || held.Err() != nil {
			t.Errorf("stored %+v, error %v", l, held.Err())
		}
		stop()
	})
}

func TestOwnerNoticesHandoverRequestAndKeepsIt(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s, other := b.prepared("a"), b.prepared("b")
		held := b.acquire(s, "0")
		requested := make(chan struct{})
		held.OnReleaseRequest = func(*Pause) { close(requested) }
		stop := b.run(held)
		_, err := other.RequestHandover(t.Context(), b.leases(s)["0"])
		must(t, err)
		<-requested
		stop()
		must(t, held.Release(t.Context()))
		l := b.leases(s)["0"]
		if requester := handoverRequest(l, s.Now(), time.Minute); requester != "b" || l.owner != "" {
			t.Errorf("released for %q: %+v", requester, l)
		}
		reacquired := b.acquire(other, "0")
		if reacquired.Lease().properties[handoverProperty] != "" || reacquired.Epoch() <= held.Epoch() {
			t.Errorf("acquired %+v", reacquired.Lease())
		}
	})
}

func TestEachWriteSetsProperties(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		value := "first"
		held.Properties = func(set func(name, value string)) { set(RetriesProperty, value) }
		stop := b.run(held)
		for _, value = range []string{"first", "second", ""} {
			must(t, held.ConfirmOwnership(t.Context()))
			if got, found := b.leases(s)["0"].properties[RetriesProperty]; got != value || found != (value != "") {
				t.Errorf("property %q, want %q", got, value)
			}
		}
		stop()
	})
}

func TestUncleanExitsCountUntilProgress(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		for crashes := range 3 {
			if held := b.acquire(s, "0"); held.Lease().UncleanExits() != crashes {
				t.Errorf("%d unclean exits, want %d", held.Lease().UncleanExits(), crashes)
			}
		}
		held := b.acquire(s, "0")
		stop := b.run(held)
		held.MadeProgress()
		must(t, held.ConfirmOwnership(t.Context()))
		if n := b.leases(s)["0"].UncleanExits(); n != 3 {
			t.Errorf("%d unclean exits before the position moved, want 3", n)
		}
		held.Advance(`"5"`, time.Now())
		must(t, held.Flush(t.Context()))
		if n := b.leases(s)["0"].UncleanExits(); n != 0 {
			t.Errorf("%d unclean exits after progress", n)
		}
		stop()
	})
}

// A write was requested during one that took long. Goroutines that waited for that one request another
// at its end: all of it is in one write.
func TestRequestsAtTheEndOfAWriteShareTheNext(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		held := b.acquire(b.prepared("a"), "0")
		var writes atomic.Int64
		b.setBefore(func(r *http.Request) {
			if r.Method == http.MethodPut && writes.Add(1) == 1 {
				time.Sleep(time.Second)
			}
		})
		stop := b.run(held)
		held.Advance(`"5"`, time.Now())
		time.Sleep(time.Millisecond)
		_, written := held.writeState.storedBy(1)
		held.Advance(`"6"`, time.Now())
		<-written
		held.Advance(`"7"`, time.Now())
		must(t, held.Flush(t.Context()))
		if n := writes.Load(); n != 2 {
			t.Errorf("%d writes, want 2", n)
		}
		stop()
	})
}

// The balancer may miss a lease in a list while its writing begins.
func TestWriteRequestedWhileWritingBegins(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		held := b.acquire(b.prepared("a"), "0")
		var asking sync.WaitGroup
		asking.Go(held.VerifySoon)
		stop := b.run(held)
		asking.Wait()
		stop()
	})
}

func TestStopComesBeforeAWriteThatIsDue(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		held := b.acquire(b.prepared("a"), "0")
		held.Advance(`"5"`, time.Now())
		b.setBefore(func(r *http.Request) { t.Errorf("%s %s", r.Method, r.URL.Path) })
		b.run(held)()
	})
}

// The margin of a tenth is for the time between the check and the delivery.
func TestTrustEndsBeforeExpirationSinceWriteLeft(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		stop := b.run(held)
		b.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Delay: 20 * time.Second, Count: 1})
		b.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Status: 503})
		sent := time.Now()
		must(t, held.ConfirmOwnership(t.Context()))
		if d := time.Since(sent); d < 20*time.Second {
			t.Fatalf("confirmed after %v", d)
		}
		for ; time.Since(sent) < 2*time.Minute; time.Sleep(time.Second) {
			want := time.Since(sent) < 54*time.Second
			if trusted, _ := held.writeState.isTrusted(held.trustedFor); trusted != want {
				t.Fatalf("trusted %v %v after the write left", trusted, time.Since(sent))
			}
		}
		stop()
	})
}

func TestWriteWithoutAnswerDoesNotLoseLease(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		stop := b.run(held)
		b.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Delay: 10 * time.Minute, Count: 1})
		for range 120 {
			time.Sleep(time.Second)
			if l := b.leases(s)["0"]; l.Free(s.Now(), time.Minute) {
				t.Fatalf("expired: written %v, now %v", l.written, s.Now())
			}
		}
		stop()
	})
}

// A next write without an etag would not be conditional.
func TestAnswerWithoutETagIsReadBack(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		stop := b.run(held)
		b.setAfter(func(r *http.Response) {
			if r.Request != nil && r.Request.Method == http.MethodPut {
				r.Header.Del("Etag")
				b.setAfter(nil)
			}
		})
		must(t, held.ConfirmOwnership(t.Context()))
		stop()
		if held.lease.etag == "" || held.Err() != nil {
			t.Errorf("etag %q, error %v", held.lease.etag, held.Err())
		}
	})
}
