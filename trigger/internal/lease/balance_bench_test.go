package lease

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// balancing is how hosts of one kind balance.
type balancing struct {
	plan func(views []View, me string) (steps []Step, next time.Duration)  // of one host now, and when it plans again
	told func(views []View, stopped string, released int) (hosts []string) // of the leases that a host has released
}

func balanceHalley() balancing {
	hosts := map[string]*joining{}
	return balancing{
		plan: func(views []View, me string) ([]Step, time.Duration) {
			if hosts[me] == nil {
				hosts[me] = &joining{}
			}
			steps := hosts[me].plan(views, "f", me, Limits{})
			return steps, hosts[me].next(simulatedAcquire)
		},
		told: func(views []View, stopped string, released int) []string {
			return hostsToTell(views, "f", stopped, released)
		},
	}
}

func balanceDotNet() balancing {
	return balancing{
		plan: func(views []View, me string) ([]Step, time.Duration) { return dotNetSteps(views, me), simulatedAcquire },
		told: func([]View, string, int) []string { return nil },
	}
}

// dotNetSteps is EqualPartitionsBalancingStrategy of azure-cosmos-dotnet-v3. If no lease is
// free it takes one from the host that holds the most, without a request.
func dotNetSteps(views []View, me string) []Step {
	held, free := map[string]int{me: 0}, []Step(nil)
	for _, v := range views {
		if v.Free {
			free = append(free, Step{Token: v.Token})
		} else {
			held[v.Owner]++
		}
	}
	target := max((len(views)+len(held)-1)/len(held), 1)
	need := target - held[me]
	if need <= 0 {
		return nil
	}
	if len(free) > 0 {
		return free[:min(need, len(free))]
	}
	atLeast := target
	if need > 1 {
		atLeast--
	}
	from := ""
	for _, v := range views { // the last host of those that hold the most
		if v.Owner != from && (from == "" || held[v.Owner] >= held[from]) {
			from = v.Owner
		}
	}
	for _, v := range views {
		if v.Owner == from && held[from] > atLeast {
			return []Step{{Token: v.Token}}
		}
	}
	return nil
}

// balanceWorld simulates hosts that balance leases, event by event.
type balanceWorld struct {
	balancing
	random *rand.Rand
	now    time.Duration
	events balanceEvents
	views  []View          // by token, which is the index
	freed  []time.Duration // of each free lease
	live   map[string]int  // leases of each live host
	moves  int             // acquisitions
	waited time.Duration   // of all moves, from the release to the acquisition
}

// balanceEvent happens at a time.
type balanceEvent struct {
	at time.Duration
	do func()
}

// balanceEvents are a heap of the next events.
type balanceEvents []balanceEvent

func (e balanceEvents) Len() int           { return len(e) }
func (e balanceEvents) Less(i, j int) bool { return e[i].at < e[j].at }
func (e balanceEvents) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *balanceEvents) Push(x any)        { *e = append(*e, x.(balanceEvent)) }
func (e *balanceEvents) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// The default intervals of both processors.
const (
	simulatedAcquire = 13 * time.Second
	simulatedRenew   = 17 * time.Second
)

// newBalanceWorld returns hosts that share the leases equally.
func newBalanceWorld(kind balancing, leases, hosts int) *balanceWorld {
	w := &balanceWorld{balancing: kind, random: rand.New(rand.NewPCG(1, 1)), freed: make([]time.Duration, leases), live: map[string]int{}}
	for i := range leases {
		owner := fmt.Sprint("host", i%hosts)
		w.views = append(w.views, View{Token: fmt.Sprint(i), Owner: owner, Halley: true})
		w.live[owner]++
	}
	for i := range hosts {
		w.after(w.upTo(simulatedAcquire), func() { w.balance(fmt.Sprint("host", i)) })
	}
	return w
}

func (w *balanceWorld) upTo(d time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(d)))
}

func (w *balanceWorld) after(wait time.Duration, do func()) {
	heap.Push(&w.events, balanceEvent{w.now + wait, do})
}

// start starts a host, which balances at once.
func (w *balanceWorld) start(host string) {
	w.live[host] = 0
	w.balance(host)
}

// stop releases the leases of a host. Hosts that are told of it notice with their next renewals.
func (w *balanceWorld) stop(host string) {
	released := w.live[host]
	delete(w.live, host)
	for i := range w.views {
		if w.views[i].Owner == host {
			w.release(i)
		}
	}
	for _, told := range w.told(w.views, host, released) {
		w.after(w.upTo(simulatedRenew), func() { w.look(told) })
	}
}

func (w *balanceWorld) release(i int) {
	v := &w.views[i]
	if _, ok := w.live[v.Owner]; ok {
		w.live[v.Owner]--
	}
	v.Owner, v.Free, w.freed[i] = "", true, w.now
	if requester := v.RequestedBy; requester != "" {
		w.after(time.Second, func() { // a requester looks for the release each second
			if w.views[i].Free && w.views[i].RequestedBy == requester {
				w.acquire(i, requester)
			}
		})
	}
}

func (w *balanceWorld) acquire(i int, host string) {
	if _, ok := w.live[host]; !ok {
		w.views[i].RequestedBy = ""
		return
	}
	v := &w.views[i]
	if _, ok := w.live[v.Owner]; ok {
		w.live[v.Owner]--
	}
	if v.Free {
		w.waited += w.now - w.freed[i]
	}
	v.Owner, v.Free, v.Unclaimed, v.RequestedBy = host, false, false, ""
	w.live[host]++
	w.moves++
}

// balance has a host look again and again, as long as it lives.
func (w *balanceWorld) balance(host string) {
	if next, ok := w.look(host); ok {
		w.after(next, func() { w.balance(host) })
	}
}

// look has a host plan and act, and returns when it does so again, unless it does not live.
func (w *balanceWorld) look(host string) (next time.Duration, ok bool) {
	if _, ok := w.live[host]; !ok {
		return 0, false
	}
	for i := range w.views {
		w.views[i].Unclaimed = w.views[i].Free && w.now-w.freed[i] > simulatedAcquire+time.Second
	}
	steps, next := w.plan(w.views, host)
	for _, step := range steps {
		var i int
		if _, err := fmt.Sscan(step.Token, &i); err != nil {
			panic(err) // tokens are numbers
		}
		if !step.Request {
			if !step.Watch {
				w.acquire(i, host)
			}
			continue
		}
		owner := w.views[i].Owner
		w.views[i].RequestedBy = host
		w.after(w.upTo(simulatedRenew), func() { // the owner's next renewal conflicts
			if w.views[i].Owner == owner && w.views[i].RequestedBy == host {
				w.release(i)
			}
		})
	}
	return next, true
}

// isBalanced reports whether all leases are held, by equal shares.
func (w *balanceWorld) isBalanced() bool {
	fewest, highest, held := len(w.views), 0, 0
	for _, n := range w.live {
		fewest, highest, held = min(fewest, n), max(highest, n), held+n
	}
	return held == len(w.views) && highest-fewest <= 1
}

// settle runs until the hosts are balanced and no event of the scenario is left, and
// returns the acquire intervals since the given time.
func (w *balanceWorld) settle(b *testing.B, since time.Duration) float64 {
	for w.now < since || !w.isBalanced() {
		if w.now > since+1000*simulatedAcquire {
			b.Fatalf("not balanced after %v: %v", w.now, w.live)
		}
		e := heap.Pop(&w.events).(balanceEvent)
		w.now = e.at
		e.do()
	}
	return (w.now - since).Seconds() / simulatedAcquire.Seconds()
}

// BenchmarkBalance simulates how hosts come to share 10,000 leases, with the algorithm
// of Halley and that of .NET. intervals is the time from the last change of the hosts
// until the shares are equal, in acquire intervals. x-fewest is the number of
// acquisitions as a multiple of the fewest that are possible: in a rolling restart,
// each lease moves once. s-ownerless is how long a lease that has to move has no owner,
// in seconds.
func BenchmarkBalance(b *testing.B) {
	const leases = 10_000
	scenarios := map[string]func(b *testing.B, kind balancing) (w *balanceWorld, intervals float64, fewest int){
		"1 to 500 hosts": func(b *testing.B, kind balancing) (*balanceWorld, float64, int) {
			w := newBalanceWorld(kind, leases, 1)
			for i := 1; i < 500; i++ {
				w.after(w.upTo(time.Second), func() { w.start(fmt.Sprint("host", i)) })
			}
			return w, w.settle(b, time.Second), leases - leases/500
		},
		"500 to 50 hosts": func(b *testing.B, kind balancing) (*balanceWorld, float64, int) {
			w := newBalanceWorld(kind, leases, 500)
			for i := 50; i < 500; i++ {
				w.after(w.upTo(time.Second), func() { w.stop(fmt.Sprint("host", i)) })
			}
			return w, w.settle(b, time.Second), leases - leases/10
		},
		"restart of 50 hosts": func(b *testing.B, kind balancing) (*balanceWorld, float64, int) {
			const hosts, between, absence = 50, 30 * time.Second, 5 * time.Second
			w := newBalanceWorld(kind, leases, hosts)
			for i := range hosts {
				start := time.Duration(i) * between
				w.after(start, func() { w.stop(fmt.Sprint("host", i)) })
				w.after(start+absence, func() { w.start(fmt.Sprint("successor", i)) })
			}
			return w, w.settle(b, (hosts-1)*between+absence), leases
		},
	}
	for _, name := range []string{"1 to 500 hosts", "500 to 50 hosts", "restart of 50 hosts"} {
		for algorithm, kind := range map[string]func() balancing{"Halley": balanceHalley, "dotnet": balanceDotNet} {
			b.Run(name+"/"+algorithm, func(b *testing.B) {
				for b.Loop() {
					w, intervals, fewest := scenarios[name](b, kind())
					b.ReportMetric(intervals, "intervals")
					b.ReportMetric(float64(w.moves)/float64(fewest), "x-fewest")
					b.ReportMetric(w.waited.Seconds()/float64(fewest), "s-ownerless")
				}
			})
		}
	}
}
