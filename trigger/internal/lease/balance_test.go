package lease

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares got with a file for reviewers.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run with -update and read the diff. Got:\n%s", path, got)
	}
}

// fleet simulates hosts that plan one after another over a few leases.
type fleet struct {
	tokens    []string
	owner     map[string]string
	requested map[string]string
	dead      map[string]bool
	dotnet    map[string]bool
	joining   map[string]*joining // of hosts that join; the others have been there
	limits    Limits

	function string
}

func newFleet(leases int) *fleet {
	f := &fleet{owner: map[string]string{}, requested: map[string]string{}, dead: map[string]bool{}, dotnet: map[string]bool{}}
	for i := range leases {
		f.tokens = append(f.tokens, fmt.Sprint(i))
	}
	return f
}

// plan returns the steps of one host, of its kind.
func (f *fleet) plan(me string) []Step {
	var leases []View
	for _, token := range f.tokens {
		o := f.owner[token]
		leases = append(leases, View{
			Token: token, Owner: o, Free: o == "" || f.dead[o], Halley: o != "" && !f.dotnet[o], RequestedBy: f.requested[token],
		})
	}
	switch {
	case f.dotnet[me]:
		return dotNetSteps(leases, me)
	case f.joining[me] != nil:
		return f.joining[me].plan(leases, f.function, me, f.limits)
	default:
		return Plan(leases, f.function, me, f.limits)
	}
}

// pass has one host plan and act. It returns the steps as text, and how many change a lease.
func (f *fleet) pass(me string) (string, int) {
	steps := f.plan(me)
	var words []string
	watches := 0
	for _, s := range steps {
		switch {
		case s.Request:
			f.requested[s.Token] = me
			words = append(words, "?"+s.Token)
		case s.Watch:
			watches++
			words = append(words, "~"+s.Token)
		default:
			f.owner[s.Token] = me
			delete(f.requested, s.Token)
			words = append(words, s.Token)
		}
	}
	return fmt.Sprintf("%s: %s", me, strings.Join(words, " ")), len(steps) - watches
}

// yield has a host release all leases that others have requested.
func (f *fleet) yield(me string) {
	for token := range f.requested {
		if f.owner[token] == me {
			f.owner[token] = ""
		}
	}
}

func (f *fleet) String() string {
	var out strings.Builder
	for _, token := range f.tokens {
		owner := f.owner[token]
		switch {
		case owner == "":
			owner = "-"
		case f.dead[owner]:
			owner += "†"
		}
		if a := f.requested[token]; a != "" {
			owner += ">" + a
		}
		fmt.Fprintf(&out, " %s:%-4s", token, owner)
	}
	return out.String()
}

// Hosts come and go. The golden file shows the owner of each lease after each
// pass: "-" is free, "a>b" is a's and requested by b, "†" is a dead host, "?" is a
// request, "~" watches a requested lease.
func TestPlanBalancesHosts(t *testing.T) {
	var out strings.Builder
	f := newFleet(8)
	show := func(event string) { fmt.Fprintln(&out, strings.TrimRight(fmt.Sprintf("%-24s%s", event, f), " ")) }
	pass := func(me string) { steps, _ := f.pass(me); show(steps) }
	yield := func(me string) { f.yield(me); show(me + " yields") }
	show("eight leases, no host")
	pass("a")
	pass("b")
	pass("b")
	yield("a")
	pass("c")
	pass("b")
	pass("c")
	yield("a")
	yield("b")
	pass("c")
	pass("a")
	pass("b")
	f.dead["b"] = true
	show("b is dead")
	pass("a")
	pass("c")
	pass("a")
	golden(t, "testdata/plan.golden", out.String())

	held := map[string]int{}
	for _, owner := range f.owner {
		held[owner]++
	}
	if held["a"] != 4 || held["c"] != 4 {
		t.Errorf("not balanced: %v", held)
	}
}

func TestPlanStealsFromDotNetOneByOne(t *testing.T) {
	f := newFleet(6)
	f.dotnet["n"] = true
	f.pass("n")
	for i, want := range []string{"a: 0", "a: 1", "a: 2", "a: "} {
		if got, _ := f.pass("a"); got != want {
			t.Errorf("pass %d: %q, want %q", i, got, want)
		}
	}
}

// A busy owner keeps the lease, however long the request is pending.
func TestPlanWaitsForRequestedLease(t *testing.T) {
	leases := []View{{Token: "0", Owner: "b", Halley: true, RequestedBy: "a"}, {Token: "1", Owner: "b", Halley: true}}
	if got := Plan(leases, "f", "a", Limits{}); len(got) != 1 || got[0] != (Step{Token: "0", Watch: true}) {
		t.Errorf("plan %v while the owner renews", got)
	}
	leases[0].Free = true
	if got := Plan(leases, "f", "a", Limits{}); len(got) != 1 || got[0] != (Step{Token: "0"}) {
		t.Errorf("plan %v after the release", got)
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, hosts := range []int{2, 100} {
		b.Run(fmt.Sprint(hosts, " hosts"), func(b *testing.B) {
			views := planViews(4000, hosts)
			for b.Loop() {
				Plan(views, "f", "new", Limits{})
			}
		})
	}
}

// planViews are leases of hosts that share them equally.
func planViews(leases, hosts int) []View {
	views := make([]View, leases)
	for i := range views {
		views[i] = View{Token: fmt.Sprint(i), Owner: fmt.Sprint("host", i%hosts), Halley: true}
	}
	return views
}

func TestPlanOfManyLeasesIsQuick(t *testing.T) {
	views := planViews(4000, 3)
	began := time.Now()
	steps := Plan(views, "f", "new", Limits{})
	if took := time.Since(began); len(steps) != 1000 || took > 50*time.Millisecond {
		t.Errorf("plan of 4,000 leases: %d steps after %v", len(steps), took)
	}
}

func TestPlanRespectsLimits(t *testing.T) {
	f := newFleet(10)
	f.limits.Max = 3
	if got, _ := f.pass("a"); got != "a: 0 1 2" {
		t.Errorf("at most three: %q", got)
	}
	f.limits = Limits{Min: 8, Max: 3}
	if got, _ := f.pass("b"); got != "b: 5 6 7 8 9 3 4" {
		t.Errorf("at least eight: %q", got)
	}
}

// One of the hosts that share the leases has stopped. The others plan at the same moment, and
// acquire all its leases, each by one of them. Those that acquire some are told.
func TestHostsAcquireDifferentFreeLeases(t *testing.T) {
	const stopped = "host1"
	for hosts := 2; hosts < 9; hosts++ {
		for leases := hosts; leases < 40; leases++ {
			var names []string
			for i := range hosts {
				names = append(names, fmt.Sprint("host", i))
			}
			var views []View
			free := 0
			for host, share := range equalShares(leases, "f", names) {
				for range share {
					v := View{Token: fmt.Sprint(len(views)), Owner: host, Halley: true}
					if host == stopped {
						v.Owner, v.Free, v.Halley = "", true, false
						free++
					}
					views = append(views, v)
				}
			}
			told := hostsToTell(views, "f", stopped, free)
			acquired := map[string]string{}
			for _, me := range names {
				if me == stopped {
					continue
				}
				steps := Plan(views, "f", me, Limits{})
				if slices.Contains(told, me) != (len(steps) > 0) {
					t.Errorf("%d leases, %d hosts: told %v, and %s acquires %v", leases, hosts, told, me, steps)
				}
				for _, s := range steps {
					if other := acquired[s.Token]; other != "" || s.Request {
						t.Errorf("%d leases, %d hosts: %s has %v, which %q acquires", leases, hosts, me, s, other)
					}
					acquired[s.Token] = me
				}
			}
			if len(acquired) != free {
				t.Errorf("%d leases, %d hosts: %d of %d free leases acquired", leases, hosts, len(acquired), free)
			}
		}
	}
}

// If many hosts stop at a time, only the first ones tell the others. Leases that have been free for
// long are no sign of a stop.
func TestManyStopsTellFew(t *testing.T) {
	views := planViews(40, 8)
	var told []int
	for _, stopped := range []string{"host3", "host5", "host0"} {
		for i := range views {
			if views[i].Owner == stopped {
				views[i].Owner, views[i].Free = "", true
			}
		}
		told = append(told, len(hostsToTell(views, "f", stopped, 5)))
	}
	if told[0] == 0 || told[1] == 0 || told[2] > 0 {
		t.Errorf("told %v hosts", told)
	}
	for i := range views {
		views[i].Unclaimed = views[i].Free && i%8 != 0
	}
	if len(hostsToTell(views, "f", "host0", 5)) == 0 {
		t.Error("no host told beside leases that have been free for long")
	}
}

func TestPlanSettles(t *testing.T) {
	for leases := range 20 {
		for hosts := 1; hosts < 7; hosts++ {
			settle(t, newFleet(leases), hosts)
		}
	}
}

// Hosts of both kinds have the leases, and start one after another in any order.
func TestMixedFleetSettles(t *testing.T) {
	for _, leases := range []int{1, 2, 3, 5, 8, 13, 19} {
		for hosts := 2; hosts < 7; hosts++ {
			for kinds := range 1 << hosts {
				f := newFleet(leases)
				f.joining = map[string]*joining{}
				for i := range hosts {
					f.dotnet[hostName(i)], f.joining[hostName(i)] = kinds&(1<<i) != 0, &joining{}
				}
				settle(t, f, hosts)
			}
		}
	}
}

func hostName(i int) string { return fmt.Sprint("h", i) }

// settle has hosts take turns until no lease may move any more.
func settle(t *testing.T, f *fleet, hosts int) {
	t.Helper()
	last := 0
	for pass := range 50 * hosts {
		me := hostName(pass % hosts)
		f.yield(me)
		if _, steps := f.pass(me); steps > 0 {
			last = pass
		}
	}
	if last > 40*hosts {
		t.Errorf("%d leases on %d hosts still move in pass %d: %s", len(f.tokens), hosts, last, f)
	}
	for _, token := range f.tokens {
		if f.owner[token] == "" {
			t.Errorf("%d leases on %d hosts: some stay Free: %s", len(f.tokens), hosts, f)
		}
	}
}

// Two hosts plan from one list.
func TestPlansOfOneMomentChooseDifferentLeases(t *testing.T) {
	for hosts := 2; hosts < 9; hosts++ {
		views := planViews(10*hosts, 1)
		for i := 1; i < hosts; i++ { // each has requested one lease, to be seen
			views[7*i].RequestedBy = fmt.Sprint("new", i)
		}
		requested := map[string]string{}
		for i := 1; i < hosts; i++ {
			me, requests := fmt.Sprint("new", i), 0
			for _, step := range Plan(views, "f", me, Limits{}) {
				if !step.Request {
					continue
				}
				requests++
				if other := requested[step.Token]; other != "" {
					t.Errorf("%d hosts: %s and %s request lease %s", hosts, other, me, step.Token)
				}
				requested[step.Token] = me
			}
			if requests != 9 {
				t.Errorf("%d hosts: %s requests %d leases", hosts, me, requests)
			}
		}
	}
}

// Functions with few ranges do not all go to the host that started first.
func TestPlanSpreadsFunctionsOverHosts(t *testing.T) {
	for leases := 1; leases <= 3; leases += 2 {
		held := map[string]int{}
		for n := range 30 {
			f := newFleet(leases)
			f.function = fmt.Sprint("function", n)
			for range 10 {
				for _, me := range []string{"a", "b"} {
					f.yield(me)
					f.pass(me)
				}
			}
			for _, owner := range f.owner {
				held[owner]++
			}
		}
		if total := 30 * leases; held["a"]+held["b"] != total || min(held["a"], held["b"]) < total/3 {
			t.Errorf("of 30 functions with %d ranges: %v", leases, held)
		}
	}
}

func TestPlanTakesUnclaimedLeasesBeyondShare(t *testing.T) {
	views := []View{
		{Token: "0", Owner: "a"}, {Token: "1", Owner: "b", Halley: true},
		{Token: "2", Free: true, Unclaimed: true}, {Token: "3", Free: true, Unclaimed: true, RequestedBy: "b"}, {Token: "4", Owner: "a"},
	}
	for _, test := range []struct {
		limits Limits
		want   int
	}{{Limits{}, 1}, {Limits{Max: 2}, 0}} {
		steps := Plan(append(views, View{Token: "5", Owner: "a"}), "f", "a", test.limits)
		if len(steps) != test.want || test.want == 1 && steps[0] != (Step{Token: "2"}) {
			t.Errorf("limits %+v: steps %v", test.limits, steps)
		}
	}
}
