package failovers

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"halley/tests/long"
	"halley/trigger/emulator"
)

var (
	countFlag = flag.Int("failovers", 0, "failovers of a held lease or its feed to simulate; 0: 150 in the long form, else 50")
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
	wanted := *countFlag
	if wanted == 0 {
		wanted = 50
		if long.Wanted() {
			wanted = 150
		}
	}
	var mu sync.Mutex
	var next atomic.Uint64
	var total figures
	hasEnough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return total.counted >= wanted
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
	t.Logf("%d seeds, %d failovers; of %d writes the feed shows %d, of which %d were not delivered as docs/regions.md says; the longest overlap of two owners is %v",
		next.Load(), total.counted, total.written, total.kept, total.unseen, total.overlap)
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
	written int // writes that were accepted, refused, or had no answer
	kept    int // changes that the feed still shows
	unseen  int // of these, not delivered, because nothing has shown the failover

	overlap time.Duration // longest one of two owners
}

func (f *figures) add(other figures) {
	f.counted += other.counted
	f.written += other.written
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
		w.waitForLeases()
		ctx, stopWriting := context.WithCancel(t.Context())
		written, pause := make(chan struct{}), w.between(time.Second, 8*time.Second)
		go func() {
			defer close(written)
			w.writeUntil(ctx, pause)
		}()
		time.Sleep(w.between(10*time.Second, time.Minute))
		for range 16 + w.dice.IntN(16) {
			w.disturb()
			if w.chance(0.15) {
				w.settle()
			} else {
				time.Sleep(w.between(time.Second, time.Minute))
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

// waitForLeases returns when all ranges have had owners, and all regions have their leases: all
// versions begin then.
func (w *world) waitForLeases() {
	for isReady := w.working != runs; !isReady; { // a drain only creates the leases of ranges without changes
		time.Sleep(time.Second)
		w.mu.Lock()
		isReady = len(w.acquired) >= w.feed.ranges
		w.mu.Unlock()
	}
	time.Sleep(10*time.Second + w.options.ReplicationLag)
}

// settle leaves the account in peace until all that was written must have been delivered: after an
// expiration for leases that nobody renews and for the wait after a failover, and some passes.
func (w *world) settle() {
	if len(w.hosts) == 0 {
		w.start()
	}
	time.Sleep(w.untilMarksEnd() + 2*expiration + 2*acquire + 2*time.Minute + w.options.ReplicationLag) // and a minute until a lost position is set back
	w.checkDelivered(time.Now().Add(-time.Minute - w.options.ReplicationLag))
}

// untilMarksEnd returns how long a range may wait for a message: 10 minutes if a host has died between
// a mark and its message, or may not know of a failover that may have lost the end of a mark.
func (w *world) untilMarksEnd() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := w.unsent
	if n := len(w.lossy); n > 0 && w.working == dispatches {
		last := w.lossy[n-1].at
		if w.options.Manners.FailoverKeepsVersion || slices.ContainsFunc(w.hosts, func(h *host) bool { return h.began.After(last.Add(-expiration)) }) {
			since = last
		}
	}
	return max(time.Until(since.Add(10*time.Minute)), 0)
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
	case n < 4 && w.feed.ranges > 1 && len(w.feed.parents) < 6:
		w.log.Info("--- a range splits")
		w.split()
	default:
		w.failOver()
	}
}

// failOver moves the writes of the account or of a range to another region, in order, or after the
// region that had them has fallen silent.
func (w *world) failOver() {
	container, rangeID := w.part()
	to := w.options.Regions[w.dice.IntN(len(w.options.Regions))]
	if w.writers[cmp.Or(container, "leases")+"/"+cmp.Or(rangeID, "0")] == to && w.chance(0.8) {
		to = w.options.Regions[(slices.Index(w.options.Regions, to)+1)%len(w.options.Regions)]
	}
	kind, began, isSettled := emulator.FailoverPlanned, time.Now(), time.Since(w.disturbed) > 2*expiration+2*acquire && w.isHeld("")
	mend := func() {}
	if w.chance(0.7) {
		kind = emulator.FailoverUnplanned
		if silent := w.options.Regions[w.dice.IntN(len(w.options.Regions))]; silent != to && w.chance(0.7) {
			mend = w.silence(silent)
		}
		time.Sleep(w.between(3*time.Second, 40*time.Second)) // the service takes its time to find out
	}
	w.log.Info("--- failover", slog.String("of", container), slog.String("range", rangeID), slog.String("to", to), slog.String("kind", string(kind)))
	if container == "" {
		w.wentBack = w.wentBack || time.Since(w.accountAt) < accountAge
		w.accountAt = time.Now()
		w.must(w.account.FailOver(to, kind))
	} else if err := w.account.FailOverRange("db", container, rangeID, to, kind); err != nil {
		w.log.Info("--- the range is splitting", slog.Any("error", err))
		mend()
		return
	}
	monitored := ""
	if container == "items" {
		monitored = rangeID
	}
	if w.moves(container, rangeID, to) && w.isHeld(monitored) {
		w.counted++
	}
	if container != "items" {
		if kind == emulator.FailoverUnplanned {
			w.lossy = append(w.lossy, lossyFailover{time.Now(), w.formerly[to]})
		}
		w.formerly[to] = true
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

// part chooses what fails over: a range of a container, or the account, which is "".
func (w *world) part() (container, rangeID string) {
	if !w.options.PartitionFailover {
		return "", ""
	}
	switch w.dice.IntN(3) {
	case 0:
		return "leases", "0"
	case 1:
		return "items", w.oneRange()
	}
	return "", ""
}

// silence has a region answer nothing until mend is called.
func (w *world) silence(region string) (mend func()) {
	fault := emulator.Fault{Region: region, Drop: emulator.DropBefore}
	if w.chance(0.5) { // no answer comes at all
		fault = emulator.Fault{Region: region, Delay: time.Hour, Status: http.StatusServiceUnavailable}
	}
	w.log.Info("--- a region is silent", slog.String("region", region), slog.Any("delay", fault.Delay))
	return w.account.Inject(fault)
}

// moves notes the region that takes the writes of a range, or of all, and reports whether it is
// another one than before.
func (w *world) moves(container, rangeID, to string) (isMove bool) {
	for place, region := range w.writers {
		if container == "" || place == container+"/"+rangeID {
			isMove = isMove || region != to
			w.writers[place] = to
		}
	}
	return isMove
}

// isHeld reports whether a host has the lease of a range, or with "" of any: it has delivered within
// a renewal.
func (w *world) isHeld(rangeID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range slices.Backward(w.deliveries) {
		if time.Since(d.at) >= 17*time.Second {
			return false
		}
		if rangeID == "" || d.token == rangeID {
			return true
		}
	}
	return false
}

func describe(d delivery) string {
	return fmt.Sprintf("%s (key %s, LSN %d) to %s in epoch %d at %s", d.name, d.key, d.lsn, d.host.name, d.epoch, d.at.Format("15:04:05.000"))
}
