package trigger

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares got with a file that a reviewer reads.
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

// fleet plays hosts that plan one after another over a few leases.
type fleet struct {
	tokens []string
	owner  map[string]string
	asked  map[string]string
	dead   map[string]bool
	dotnet map[string]bool
	limits limits

	function string
}

func newFleet(leases int) *fleet {
	f := &fleet{owner: map[string]string{}, asked: map[string]string{}, dead: map[string]bool{}, dotnet: map[string]bool{}}
	for i := range leases {
		f.tokens = append(f.tokens, fmt.Sprint(i))
	}
	return f
}

// pass lets one host plan and act. It reports what it did, and how much.
func (f *fleet) pass(me string) (string, int) {
	var leases []standing
	for _, token := range f.tokens {
		o := f.owner[token]
		leases = append(leases, standing{
			token: token, owner: o, free: o == "" || f.dead[o], halley: o != "" && !f.dotnet[o], asked: f.asked[token],
		})
	}
	steps := plan(leases, f.function, me, f.limits)
	var words []string
	for _, s := range steps {
		if s.ask {
			f.asked[s.token] = me
			words = append(words, "?"+s.token)
			continue
		}
		f.owner[s.token] = me
		delete(f.asked, s.token)
		words = append(words, s.token)
	}
	return fmt.Sprintf("%s: %s", me, strings.Join(words, " ")), len(steps)
}

// yield lets a host release what it was asked for.
func (f *fleet) yield(me string) {
	for token := range f.asked {
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
		if a := f.asked[token]; a != "" {
			owner += ">" + a
		}
		fmt.Fprintf(&out, " %s:%-4s", token, owner)
	}
	return out.String()
}

// TestPlan lets hosts come and go and shows, pass by pass, who holds what: "-"
// is free, "a>b" is a's and asked for by b, "†" is dead, "?" is asking.
func TestPlan(t *testing.T) {
	var out strings.Builder
	f := newFleet(8)
	show := func(what string) { fmt.Fprintln(&out, strings.TrimRight(fmt.Sprintf("%-24s%s", what, f), " ")) }
	pass := func(me string) { what, _ := f.pass(me); show(what) }
	yield := func(me string) { f.yield(me); show(me + " yields") }
	show("eight leases, nobody")
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

func TestPlanTakesWhatIsNotHandedOver(t *testing.T) {
	leases := []standing{
		{token: "0", owner: "b", halley: true, asked: "a", ignored: true},
		{token: "1", owner: "b", halley: true},
	}
	if got := plan(leases, "f", "a", limits{}); len(got) != 1 || got[0] != (step{token: "0"}) {
		t.Errorf("plan %v", got)
	}
	leases[0].ignored = false
	if got := plan(leases, "f", "a", limits{}); len(got) != 0 {
		t.Errorf("plan %v while the owner may still answer", got)
	}
}

func TestWhoMayStillHopeForALease(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	asked := func(owner string, written, since time.Duration) *lease {
		return &lease{owner: owner, written: now.Add(-written), properties: map[string]string{
			handoverProperty: "b", handoverSinceProperty: strconv.FormatInt(now.Add(-since).Unix(), 10),
		}}
	}
	tests := []struct {
		name    string
		lease   *lease
		by      string
		ignored bool
	}{
		{"just asked", asked("a", time.Second, 2*time.Second), "b", false},
		{"the owner does not answer", asked("a", time.Second, 90*time.Second), "b", true},
		{"long forgotten", asked("a", time.Second, 3*time.Minute), "", false},
		{"released for the asker", asked("", 10*time.Second, 20*time.Second), "b", false},
		{"the asker does not come", asked("", 31*time.Second, 40*time.Second), "", false},
		{"the owner is dead", asked("a", 70*time.Second, 75*time.Second), "", false},
	}
	for _, test := range tests {
		if by, ignored := test.lease.asked(now, time.Minute); by != test.by || ignored != test.ignored {
			t.Errorf("%s: asked by %q, ignored %v", test.name, by, ignored)
		}
	}
}

func TestPlanWithinLimits(t *testing.T) {
	f := newFleet(10)
	f.limits.max = 3
	if got, _ := f.pass("a"); got != "a: 0 1 2" {
		t.Errorf("at most three: %q", got)
	}
	f.limits = limits{min: 8, max: 3}
	if got, _ := f.pass("b"); got != "b: 3 4 5 6 7 8 9" {
		t.Errorf("at least eight: %q", got)
	}
}

func TestPlanSettles(t *testing.T) {
	for leases := range 20 {
		for hosts := 1; hosts < 7; hosts++ {
			f := newFleet(leases)
			last := 0
			for pass := range 50 * hosts {
				me := fmt.Sprintf("h%d", pass%hosts)
				f.yield(me)
				if _, steps := f.pass(me); steps > 0 {
					last = pass
				}
			}
			if last > 40*hosts {
				t.Errorf("%d leases on %d hosts still move in pass %d: %s", leases, hosts, last, f)
			}
			for _, token := range f.tokens {
				if f.owner[token] == "" {
					t.Errorf("%d leases on %d hosts: some stay free: %s", leases, hosts, f)
				}
			}
		}
	}
}

// TestPlanSpreadsFunctions: functions of few ranges do not all go to the host
// that came first.
func TestPlanSpreadsFunctions(t *testing.T) {
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

func TestLocate(t *testing.T) {
	r := func(id, min, max string, parents ...string) cosmos.Range {
		return cosmos.Range{ID: id, Min: min, Max: max, Parents: parents}
	}
	v0 := func(token string, s span) *lease { return newLease("p", token, s, false) }
	v1 := func(s span) *lease { return newLease("p", s.token(), s, true) }
	tests := []struct {
		name     string
		lease    *lease
		ranges   []cosmos.Range
		physical string
		children string
		err      error
	}{
		{"v0 as it was", v0("0", span{"", "20"}), []cosmos.Range{r("0", "", "20"), r("1", "20", "FF")}, "0", "", nil},
		{"v0 split", v0("0", span{"", "20"}), []cosmos.Range{r("2", "", "10", "0"), r("3", "10", "20", "0"), r("1", "20", "FF")}, "", "2 3", nil},
		{"v0 split, span unknown", v0("0", span{}), []cosmos.Range{r("2", "", "10", "0"), r("3", "10", "20", "0"), r("1", "20", "FF")}, "", "2 3", nil},
		{"v0 merged", v0("0", span{"", "20"}), []cosmos.Range{r("2", "", "FF", "0", "1")}, "", "-20", nil},
		{"v0 merged, span unknown", v0("0", span{}), []cosmos.Range{r("2", "", "FF", "0", "1")}, "", "", errMergedUnknown},
		{"v0 split, then one child merged with the neighbour", v0("0", span{"", "20"}), []cosmos.Range{r("2", "", "10", "0"), r("4", "10", "FF", "0", "3", "1")}, "", "2 10-20", nil},
		{"v0 not to be seen yet", v0("0", span{}), []cosmos.Range{r("7", "", "FF")}, "", "", errRangesChanging},
		{"v1 part of a range", v1(span{"", "20"}), []cosmos.Range{r("2", "", "FF", "0", "1")}, "2", "", nil},
		{"v1 split on its bound", v1(span{"", "20"}), []cosmos.Range{r("5", "", "20", "2"), r("6", "20", "FF", "2")}, "5", "", nil},
		{"v1 split inside", v1(span{"", "20"}), []cosmos.Range{r("5", "", "18", "2"), r("6", "18", "FF", "2")}, "", "-18 18-20", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.lease.continuation = `"41"`
			test.lease.properties[epochProperty] = "6"
			test.lease.properties[incarnationProperty] = "me"
			physical, children, err := locate(test.lease, test.ranges, "p")
			if !errors.Is(err, test.err) || physical.ID != test.physical {
				t.Errorf("physical %q, error %v", physical.ID, err)
			}
			var tokens []string
			for _, c := range children {
				tokens = append(tokens, c.token)
				if c.continuation != `"41"` || c.epoch() != 7 || c.owner != "" || c.properties[incarnationProperty] != "" {
					t.Errorf("child %+v", c)
				}
				if c.byKeys != strings.Contains(c.token, "-") {
					t.Errorf("child %q has the wrong schema", c.token)
				}
			}
			if got := strings.Join(tokens, " "); got != test.children {
				t.Errorf("children %q, want %q", got, test.children)
			}
		})
	}
}

func TestHoles(t *testing.T) {
	ranges := []cosmos.Range{
		{ID: "1", Min: "", Max: "10", Parents: []string{"0"}},
		{ID: "2", Min: "10", Max: "20", Parents: []string{"0"}},
		{ID: "3", Min: "20", Max: "FF"},
	}
	known := func(token, lo, hi string) *lease {
		return newLease("p", token, span{lo, hi}, strings.Contains(token, "-"))
	}
	bare := func(token string) *lease { return newLease("p", token, span{}, false) }
	dead := known("3", "20", "FF")
	dead.properties[tombstoneProperty] = "1"
	tests := []struct {
		name   string
		leases []*lease
		bad    []unreadable
		want   string
	}{
		{"none", nil, nil, "1 2 3"},
		{"all by id", []*lease{bare("1"), bare("2"), bare("3")}, nil, ""},
		{"an ancestor", []*lease{bare("0"), bare("3")}, nil, ""},
		{"an ancestor by span", []*lease{known("0", "", "20")}, nil, "3"},
		{"one v1 over all", []*lease{known("-FF", "", "FF")}, nil, ""},
		{"a hole inside a range", []*lease{known("-20", "", "20"), known("20-30", "20", "30"), known("40-FF", "40", "FF")}, nil, "30-40"},
		{"a hole at the end", []*lease{known("1", "", "10"), known("10-18", "10", "18"), known("3", "20", "FF")}, nil, "18-20"},
		{"a document that cannot be read", []*lease{bare("1"), bare("2")}, []unreadable{{id: "p..3"}}, ""},
		{"a tombstone does not cover", []*lease{bare("0"), dead}, nil, "3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var tokens []string
			for _, hole := range holes(ranges, test.leases, test.bad, "p") {
				tokens = append(tokens, hole.newLease("p").token)
			}
			if got := strings.Join(tokens, " "); got != test.want {
				t.Errorf("holes %q, want %q", got, test.want)
			}
		})
	}
}

func TestClassify(t *testing.T) {
	tests := []struct {
		status, substatus int
		want              cosmos.Outcome
	}{
		{410, 1002, cosmos.RangeGone}, {410, 1007, cosmos.RangeGone}, {410, 1008, cosmos.Transient}, {410, 1000, cosmos.ContainerGone},
		{404, 0, cosmos.NotFound}, {404, 1002, cosmos.Transient}, {404, 1003, cosmos.ContainerGone}, {400, 1024, cosmos.ContainerGone},
		{412, 0, cosmos.Conflict}, {429, 3200, cosmos.Transient}, {449, 0, cosmos.Transient}, {408, 0, cosmos.Transient},
		{500, 0, cosmos.Transient}, {503, 0, cosmos.Transient}, {401, 0, cosmos.Denied}, {403, 0, cosmos.Denied}, {400, 0, cosmos.Invalid},
	}
	for _, test := range tests {
		err := fmt.Errorf("read: %w", &cosmos.Error{Status: test.status, SubStatus: test.substatus})
		if got := cosmos.Classify(err); got != test.want {
			t.Errorf("%d/%d: cosmos.Outcome %d, want %d", test.status, test.substatus, got, test.want)
		}
	}
	if got := cosmos.Classify(errors.Join(cosmos.ErrOutcomeUnknown, &cosmos.Error{Status: 503})); got != cosmos.Unknown {
		t.Errorf("lost answer: cosmos.Outcome %d", got)
	}
	if got := cosmos.Classify(errors.New("connection reset")); got != cosmos.Transient {
		t.Errorf("no answer: cosmos.Outcome %d", got)
	}
}

func TestBackoff(t *testing.T) {
	for n := 1; n < 100; n++ {
		ceiling := min(float64(30*time.Second), float64(100*time.Millisecond)*pow2(n-1))
		if d := float64(backoff.Wait(n, 100*time.Millisecond, 30*time.Second, "a")); d < ceiling/2 || d > ceiling {
			t.Errorf("attempt %d: %v outside [%v, %v]", n, d, ceiling/2, ceiling)
		}
	}
	for _, base := range []time.Duration{time.Minute, 10 * time.Minute} {
		for n := 1; n < 100; n++ {
			if d := backoff.Wait(n, base, time.Hour, "a"); d < base/2 || d > time.Hour {
				t.Errorf("attempt %d: %v, at least half of %v", n, d, base)
			}
		}
	}
	if backoff.Wait(3, time.Second, time.Minute, "a") == backoff.Wait(3, time.Second, time.Minute, "b") {
		t.Error("two hosts wait equally long")
	}
}

func pow2(n int) float64 {
	if n > 40 {
		n = 40
	}
	return float64(int64(1) << n)
}
