package crash

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/tests/history"
	"halley/tests/long"
	"halley/trigger/emulator"
)

var (
	kills = flag.Int("kills", 0, "hosts to kill; 0: 8, in the long form 24")
	seed  = flag.Uint64("seed", 0, "decides who is killed where; 0: a new one")
)

const (
	cells           = 4
	hosts           = 3               // of a cell
	patience        = 8 * time.Second // for a host to reach a point
	enoughForBirths = 100             // kills: fewer are over before a stale lock is
	settling        = 3 * time.Minute // at most, also on a machine that is slow and busy
)

// TestCrashes kills the given number of hosts and lets the others catch up. No
// promise may be broken: no change is lost, none is redelivered if it was
// checkpointed when its lease was acquired, and no checkpoint is past a change
// that is not handled.
func TestCrashes(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some time")
	}
	t.Parallel()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", *seed)
	if *kills == 0 {
		*kills = 8
		if long.Wanted() {
			*kills = 24
		}
	}
	dir, binary, account := newAccount(t)

	began := time.Now()
	var runs []*run
	var running sync.WaitGroup
	begin := func(plan []point, dice *rand.Rand) {
		c := newCell(t, account, fmt.Sprint("cell", len(runs)), dir, 3)
		r := &run{cell: c, binary: binary, plan: plan, dice: dice, figures: newFigures()}
		runs = append(runs, r)
		running.Go(r.run)
	}
	left := *kills
	if left >= enoughForBirths {
		for i, p := range births {
			begin([]point{p}, newDice(births, i))
			left--
		}
	}
	for i := range cells {
		dice := newDice(points, i)
		begin(plan((left+i)/cells, dice), dice)
	}
	running.Wait()
	total := newFigures()
	for _, r := range runs {
		total.add(r.figures)
	}
	if slices.Sort(total.starts); len(total.starts) >= fewestTimes {
		judgeTime(t, history.PromptAfterStart, "half of the hosts", total.starts[len(total.starts)/2], startLimit)
	}
	t.Logf("%s\nin %s", total, time.Since(began).Round(time.Second))
	if total.kills() < *kills {
		t.Errorf("%d kills, want %d", total.kills(), *kills)
	}
}

// newAccount returns a directory for the files of a test, the program of its hosts and
// an account with a database, which is closed at the end of the test.
func newAccount(t *testing.T) (dir, binary string, account *emulator.Account) {
	dir = t.ArtifactDir()
	binary = filepath.Join(dir, "recorder")
	if out, err := exec.Command("go", "build", "-o", binary, "halley/tests/recorder").CombinedOutput(); err != nil {
		t.Fatalf("build recorder: %v\n%s", err, out)
	}
	account, err := emulator.New(nil)
	must(t, err)
	t.Cleanup(func() { _ = account.Close() })
	must(t, connect(t, account).CreateDatabase(t.Context(), database))
	return dir, binary, account
}

func newDice(of []point, i int) *rand.Rand { return rand.New(rand.NewPCG(*seed, uint64(len(of)<<8+i))) }

// plan returns the points of the kills: first the end of the bootstrap, then rounds
// of all points, each in another order.
func plan(kills int, dice *rand.Rand) []point {
	plan := []point{born}
	for len(plan) < kills {
		round := slices.Clone(points)
		dice.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		plan = append(plan, round...)
	}
	return plan[:kills]
}

// run is the sequence of kills in one cell.
type run struct {
	*cell
	binary  string
	plan    []point
	dice    *rand.Rand
	figures figures
	alive   []*life
}

func (r *run) run() {
	defer func() {
		for _, l := range r.alive {
			l.close()
		}
		r.late.Wait()
		_ = r.file.Close()
	}()
	stopLoad := r.load()
	defer stopLoad()
	trap := r.arm(r.plan[0]) // it may spring before the last host has started
	for range hosts {
		r.alive = append(r.alive, r.start(r.binary))
	}
	r.await(trap)
	for _, p := range r.plan[1:] {
		r.killAt(p)
	}
	stopLoad()
	r.judge()
}

// killAt kills a host at a point, or at random if none reaches it, and starts its
// successor.
func (r *run) killAt(p point) {
	trap := r.arm(p)
	if p.needsReshape() {
		if split, err := r.reshape(r.dice.IntN); err == nil {
			r.figures.reshaped(split)
		}
	}
	if p.needsStop() {
		r.alive[r.dice.IntN(hosts)].terminate()
	}
	r.await(trap)
}

// await waits until the trap springs. If it does not, it kills a random host.
func (r *run) await(t *trap) {
	wait := patience
	if t.point == atRandom {
		wait = time.Duration(r.dice.Int64N(int64(expiration)))
	}
	select {
	case dead := <-t.sprung:
		r.replace(dead, t.point)
		return
	case <-after(wait):
	}
	if !r.disarm(t) { // it is springing now
		r.replace(<-t.sprung, t.point)
		return
	}
	r.sweep()
	victim := r.alive[r.dice.IntN(hosts)]
	victim.kill()
	r.replace(victim, atRandom)
}

// replace counts a dead host and starts its successor.
func (r *run) replace(dead *life, p point) {
	r.figures.killedAt[p]++
	r.renew(dead)
	r.sweep()
}

func (r *run) renew(dead *life) {
	dead.close()
	r.measure(dead)
	r.alive[slices.Index(r.alive, dead)] = r.start(r.binary)
}

// sweep replaces hosts that have stopped gracefully before a trap killed them.
func (r *run) sweep() {
	for _, l := range slices.Clone(r.alive) {
		if l.dead() {
			l.stop()
			r.renew(l)
		}
	}
}

// judge waits until every change is delivered and the leases cover every key once,
// stops the hosts and judges the history.
func (r *run) judge() {
	deadline := after(settling)
	for settled := false; !settled; {
		select {
		case <-deadline:
			r.t.Errorf("%s: not settled in time; leases %v", r.name, r.tokens())
			settled = true
		case <-after(500 * time.Millisecond):
			settled = r.tidy() && r.report().Lost == 0
		}
	}
	for _, l := range r.alive {
		l.stop()
		r.measure(l)
	}
	r.late.Wait()
	report := r.report()
	r.figures.report(report)
	for i, v := range report.Violations {
		if i == 10 {
			r.t.Errorf("%s: and %d more", r.name, len(report.Violations)-i)
			break
		}
		r.t.Errorf("%s: %s", r.name, v)
	}
}

// Limits of the transitions of a process.
const (
	stopLimit = 10*time.Second + time.Second + 2*time.Second // the default StopGrace, a second, and the process
	// Its predecessor's leases expire, it finds and acquires them, and the process
	// starts. Only the median is judged: if there are more hosts than ranges, some wait.
	startLimit  = expiration + 2*acquiring + 2*time.Second
	fewestTimes = 10
)

// measure records how long a host took to stop and to start, and judges the stop.
func (r *run) measure(l *life) {
	stop, start := l.times()
	if start >= 0 {
		r.figures.starts = append(r.figures.starts, start)
	}
	if stop >= 0 {
		r.figures.stops = append(r.figures.stops, stop)
		judgeTime(r.t, history.PromptStop, l.name, stop, stopLimit)
	}
}

// judgeTime judges how long a host, or half of the hosts, took. The short form does not,
// because the machine may be slow.
func judgeTime(t *testing.T, rule history.Rule, who string, took, limit time.Duration) {
	if took > limit && long.Wanted() {
		t.Errorf("%s: %s took %s, at most %s are allowed", rule, who, took, limit)
	}
}

func (r *run) report() history.Report {
	events, err := r.events()
	if err != nil {
		r.t.Error(err)
	}
	return history.Check(ended(events))
}

// ended adds to each delivery the end of its call, because hosts record a delivery
// when the handler has done its work.
func ended(events []history.Event) []history.Event {
	var whole []history.Event
	for i, e := range events {
		if e.Kind != history.Delivery {
			whole = append(whole, e)
			continue
		}
		e.Call = int64(i + 1)
		whole = append(whole, e, history.Event{
			Kind: history.End, Call: e.Call, Host: e.Host, Range: e.Range, Epoch: e.Epoch, Verdict: history.Handled,
		})
	}
	return whole
}

// figures count the events of a run.
type figures struct {
	killedAt                          map[point]int
	splits, merges                    int
	written, delivered, again, unseen int
	lost, takeovers                   int

	stops, starts []time.Duration // from the signal to the exit; from the start to the first page with changes
}

func newFigures() figures {
	return figures{killedAt: map[point]int{}}
}

func (f *figures) kills() (n int) {
	for _, k := range f.killedAt {
		n += k
	}
	return n
}

func (f *figures) reshaped(split bool) {
	if split {
		f.splits++
	} else {
		f.merges++
	}
}

func (f *figures) report(r history.Report) {
	f.written, f.delivered, f.again, f.unseen = r.Written, r.Delivered, r.Redelivered, r.Superseded
	f.lost, f.takeovers = r.Lost, r.Takeovers
}

func (f *figures) add(o figures) {
	for p, n := range o.killedAt {
		f.killedAt[p] += n
	}
	f.splits, f.merges = f.splits+o.splits, f.merges+o.merges
	f.written, f.delivered, f.again, f.unseen = f.written+o.written, f.delivered+o.delivered, f.again+o.again, f.unseen+o.unseen
	f.lost, f.takeovers = f.lost+o.lost, f.takeovers+o.takeovers
	f.stops, f.starts = append(f.stops, o.stops...), append(f.starts, o.starts...)
}

// spread describes some durations.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	return fmt.Sprintf("%d, median %s, longest %s", len(all), all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond))
}

func (f figures) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d kills:", f.kills())
	for _, p := range slices.SortedFunc(maps.Keys(f.killedAt), func(a, b point) int { return strings.Compare(a.String(), b.String()) }) {
		fmt.Fprintf(&b, "\n  %4d %s", f.killedAt[p], p)
	}
	fmt.Fprintf(&b, "\n%d splits, %d merges, %d takeovers\n", f.splits, f.merges, f.takeovers)
	fmt.Fprintf(&b, "%d changes written, %d delivered, %d superseded before anybody saw them, %d delivered again, %d lost",
		f.written, f.delivered, f.unseen, f.again, f.lost)
	fmt.Fprintf(&b, "\nfrom the stop signal to the exit: %s\nfrom the start to the first page: %s", spread(f.stops), spread(f.starts))
	return b.String()
}
