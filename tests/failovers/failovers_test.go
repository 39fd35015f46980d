package failovers

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/emulator"
)

var (
	countFlag = flag.Int("failovers", 150, "failovers of a held lease or its feed to simulate")
	firstFlag = flag.Uint64("first", 1, "first of the seeds; 0: fresh ones, from the clock")
	seedFlag  = flag.Uint64("seed", 0, "simulate this one seed, and show what the hosts log")
)

// Many short requests make much garbage: more memory saves collections.
func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

// TestFailovers runs seed after seed, as many at a time as there are processors.
func TestFailovers(t *testing.T) {
	first := *firstFlag
	if first == 0 {
		first = uint64(time.Now().UnixNano()) % 1e12
	}
	t.Logf("seeds from %d", first)
	var mu sync.Mutex
	var next atomic.Uint64
	var total figures
	hasEnough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return total.counted >= *countFlag
	}
	t.Run("seeds", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(worker), func(t *testing.T) {
				t.Parallel()
				for !hasEnough() && !t.Failed() {
					f := simulate(t, first+next.Add(1)-1, slog.New(slog.DiscardHandler))
					mu.Lock()
					total.add(f)
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d seeds, %d failovers; the account has lost %d writes that it accepted or may have accepted, and kept %d, of which %d were not delivered as docs/regions.md says; the longest overlap of two owners is %v",
		next.Load(), total.counted, total.lost, total.kept, total.unseen, total.overlap)
}

// TestSeed runs one seed.
func TestSeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no seed is given: go test ./tests/failovers -run TestSeed -v -seed N")
	}
	f := simulate(t, *seedFlag, slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelInfo})))
	t.Logf("%+v", f)
}

// figures are those of one seed.
type figures struct {
	counted int // failovers that hit a held lease
	lost    int // documents that were written and are not in the account
	kept    int // documents that are
	unseen  int // of these, not delivered, because nothing has shown the failover

	overlap time.Duration // longest one of two owners
}

func (f *figures) add(other figures) {
	f.counted += other.counted
	f.lost += other.lost
	f.kept += other.kept
	f.unseen += other.unseen
	f.overlap = max(f.overlap, other.overlap)
}

func simulate(t *testing.T, seed uint64, log *slog.Logger) (f figures) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, log)
		defer w.account.Close()
		log.Info("account", slog.Any("options", w.options))
		for range 2 + w.dice.IntN(2) {
			w.start()
		}
		ctx, stopWriting := context.WithCancel(t.Context())
		written, pause := make(chan struct{}), w.between(time.Second, 8*time.Second)
		go func() {
			defer close(written)
			w.writeUntil(ctx, pause)
		}()
		time.Sleep(w.between(10*time.Second, time.Minute))
		for range 8 + w.dice.IntN(8) {
			w.disturb()
			if w.chance(0.15) {
				w.settle()
			} else {
				time.Sleep(w.between(time.Second, 2*time.Minute))
			}
		}
		stopWriting()
		<-written
		w.settle()
		f = w.judge()
		for len(w.hosts) > 0 {
			w.end(0, false)
		}
		w.running.Wait()
	})
	return f
}

// settle leaves the account in peace until all that was written must have been delivered: after an
// expiration for leases that nobody renews and for the wait after a failover, and some passes.
func (w *world) settle() {
	if len(w.hosts) == 0 {
		w.start()
	}
	time.Sleep(2*expiration + 2*acquire + 2*time.Minute) // and a minute until a lost position is set back
	w.checkDelivered(time.Now().Add(-time.Minute))
}

// disturb does one thing to the account or a host.
func (w *world) disturb() {
	if n := len(w.mended); n > 0 && w.mended[n-1].until.IsZero() {
		w.mended[n-1].until = time.Now()
	}
	defer func() { w.disturbed = time.Now() }()
	switch n := w.dice.IntN(10); {
	case n < 2 && len(w.hosts) > 0:
		kill := w.chance(0.7)
		w.log.Info("--- a host ends", slog.Bool("killed", kill))
		w.end(w.dice.IntN(len(w.hosts)), kill)
		if w.chance(0.8) {
			w.start()
		}
	case n < 3 && len(w.hosts) < 4:
		w.log.Info("--- a host starts")
		w.start()
	default:
		w.failOver()
	}
}

// failOver moves the writes of the account or of a range to another region, in order, or after the
// region that had them has fallen silent.
func (w *world) failOver() {
	to := w.options.Regions[w.dice.IntN(len(w.options.Regions))]
	container := []string{"account", "items", "leases"}[w.dice.IntN(3)]
	if !w.options.PartitionFailover {
		container = "account"
	}
	kind, began, isSettled := emulator.FailoverPlanned, time.Now(), time.Since(w.disturbed) > 2*expiration+2*acquire && w.isHeld()
	mend := func() {}
	if w.chance(0.7) {
		kind = emulator.FailoverUnplanned
		if silent := w.options.Regions[w.dice.IntN(len(w.options.Regions))]; silent != to && w.chance(0.7) {
			fault := emulator.Fault{Region: silent, Drop: emulator.DropBefore}
			if w.chance(0.5) { // no answer comes at all
				fault = emulator.Fault{Region: silent, Delay: time.Hour, Status: http.StatusServiceUnavailable}
			}
			w.log.Info("--- a region is silent", slog.String("region", silent), slog.Any("delay", fault.Delay))
			mend = w.account.Inject(fault)
		}
		time.Sleep(w.between(3*time.Second, 40*time.Second)) // the service takes its time to find out
	}
	w.log.Info("--- failover", slog.String("of", container), slog.String("to", to), slog.String("kind", string(kind)))
	if w.moves(container, to) && w.isHeld() {
		w.counted++
	}
	if container == "account" {
		w.wentBack = w.wentBack || time.Since(w.accountAt) < accountAge
		w.accountAt = time.Now()
		w.must(w.account.FailOver(to, kind))
	} else {
		w.must(w.account.FailOverRange("db", container, "0", to, kind))
	}
	if container != "items" && kind == emulator.FailoverUnplanned {
		w.lossy = append(w.lossy, time.Now())
	}
	if w.chance(0.5) {
		time.Sleep(w.between(time.Second, time.Minute))
	}
	mend()
	w.log.Info("--- all regions answer")
	after := recovery{from: time.Now(), bound: promptAgain}
	if !isSettled || time.Since(began) > trusted {
		after.bound = 2*expiration + 2*acquire
	}
	w.mended = append(w.mended, after)
}

// moves notes the region that takes the writes of a container, or of the account, and reports
// whether it is another one than before.
func (w *world) moves(container, to string) (isMove bool) {
	for _, name := range []string{"items", "leases"} {
		if container == name || container == "account" {
			isMove = isMove || w.writers[name] != to
			w.writers[name] = to
		}
	}
	return isMove
}

// isHeld reports whether a host has a lease: it has delivered within a renewal.
func (w *world) isHeld() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.deliveries) > 0 && time.Since(w.deliveries[len(w.deliveries)-1].at) < 17*time.Second
}

func describe(d delivery) string {
	return fmt.Sprintf("%s (key %s, LSN %d) to %s in epoch %d at %s", d.doc.ID, d.doc.Key, d.lsn, d.host.name, d.epoch, d.at.Format("15:04:05.000"))
}
