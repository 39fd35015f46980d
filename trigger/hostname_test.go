package trigger

import (
	"testing"
	"time"

	"halley/trigger/cosmos"
)

// A host is known by its name in leases, in its status and to its program, and hosts
// without a name get different ones.
func TestHostHasItsNameInLeases(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		h := w.host("orders-1", w.recorder("a"))
		stop := w.startHost(h)
		time.Sleep(time.Minute)
		leases, err := w.control(nil).List(t.Context())
		must(t, err)
		if len(leases) != 1 || leases[0].Owner != "orders-1" || h.Owner() != "orders-1" || h.Status().Owner != "orders-1" {
			t.Errorf("leases %+v, owner %q, status of %q", leases, h.Owner(), h.Status().Owner)
		}
		stop()
		one, other := w.host("", w.recorder("a")).Owner(), w.host("", w.recorder("a")).Owner()
		if one == "" || one == other {
			t.Errorf("hosts without a name are %q and %q", one, other)
		}
	})
}

// With NoLeasePrefix, ids of leases begin with the account's host name: such leases are
// taken over. Any other prefix begins the ids.
func TestNoLeasePrefixTakesOverLeasesWithoutPrefix(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		account := w.leasePrefix()[len("test"):]
		l := newLeaseDocument(account, "0", "", "FF")
		w.write("seen", "seen")
		l.continuation = w.newestContinuation()
		w.createLease(l)
		id := account + ".info"
		_, err := w.leases.Create(t.Context(), cosmos.NewPartitionKey(id), map[string]any{"id": id, "partitionKey": id})
		must(t, err)
		w.write("new", "new")
		_, err = w.host("a", w.recorder("a"), func(f *Function, _ *Options) { f.LeasePrefix = NoLeasePrefix }).Drain(t.Context())
		must(t, err)
		if len(w.delivered) != 1 || w.delivered[0].doc.ID != "new" {
			t.Errorf("delivered %+v, want the change after the lease's position", w.delivered)
		}
	})
}

// A zero field has the default that its comment names.
func TestZeroFieldsHaveTheirDefaults(t *testing.T) {
	f := Function{FeedSource: FeedSource{Name: "orders"}}.WithDefaults()
	if f.LeasePrefix != "orders" || f.MaxItemsPerInvocation != 100 || f.HandlerTimeout != 5*time.Minute || f.PageItems != 0 || f.BatchBytes != 4<<20 ||
		f.Lanes != 1 || f.MaxAhead != 1000 || f.RetryMin != 100*time.Millisecond || f.RetryMax != 30*time.Second || f.MaxAttempts != -1 ||
		f.BreakerLimit != 10 || f.BreakerPause != time.Minute || f.StallAfter != time.Minute || f.FeedPollMin != 5*time.Millisecond ||
		f.Checkpoint != (Checkpoint{Interval: 200 * time.Millisecond}) {
		t.Errorf("function %+v", f)
	}
	if f := (Function{DeadLetters: DropDeadLetters}).WithDefaults(); f.MaxAttempts != 10 {
		t.Errorf("%d attempts with a store", f.MaxAttempts)
	}
	if f := (Function{RetryPolicy: RetryPolicy{RetryMin: time.Minute}, RateLimits: RateLimits{FeedPollDelay: time.Millisecond}}).WithDefaults(); f.RetryMax != time.Minute ||
		f.FeedPollMin != time.Millisecond {
		t.Errorf("defaults do not follow other fields: %+v", f)
	}
	o := Options{}.WithDefaults()
	if o.FeedPollDelay != 5*time.Second || o.LeaseAcquireInterval != 13*time.Second || o.LeaseRenewInterval != 17*time.Second ||
		o.LeaseExpirationInterval != time.Minute || o.AuditInterval != 5*time.Minute || o.StopGrace != 10*time.Second || o.StuckGrace != 10*time.Second ||
		o.MaxStuck != 16 || o.ReadAhead != 64<<20 || o.Parallel != 32 || o.MinLeases != 0 || o.MaxLeases != 0 {
		t.Errorf("options %+v", o)
	}
}
