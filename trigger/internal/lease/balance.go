package lease

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"time"
)

// View is a lease as balancing sees it.
type View struct {
	Token  string
	Owner  string
	Free   bool // without owner, or expired
	Halley bool // the owner is a Halley host, which releases a lease on request

	RequestedBy string // host with a pending handover request, or ""
	TimedOut    bool   // the owner has not answered the request, and the requester may take the lease
	Unclaimed   bool   // free for longer than one acquire interval: every host below its share has had its turn
}

// Step is one action of a host for one lease.
type Step struct {
	Token   string
	Request bool // request a handover from the owner; otherwise acquire the lease
}

// Limits are the least and the most leases of a function that a host takes,
// whatever its equal share; 0 is no limit. Min wins over Max.
type Limits struct{ Min, Max int }

func (l Limits) clampShare(share int) int {
	if l.Max > 0 {
		share = min(share, l.Max)
	}
	return max(share, l.Min)
}

// viewOf derives the view of a lease that this host does not hold.
func viewOf(l *Lease, now time.Time, expiration, acquireInterval time.Duration) View {
	v := View{Token: l.token, Owner: l.owner, Free: l.Free(now, expiration), Halley: l.OwnedByHalley()}
	v.Unclaimed = v.Free && now.Sub(l.freeFrom(expiration)) > acquireInterval+time.Second
	v.RequestedBy, v.TimedOut = handoverRequest(l, now, expiration)
	return v
}

// Plan returns the steps that host me should take now so that the hosts come to
// hold equal shares of a function's leases. The views are in a stable order.
//
// It follows azure-cosmos-dotnet-v3 (EqualPartitionsBalancingStrategy), so that
// hosts of both kinds settle: acquire free leases up to the share; if none is
// free, take from the host that holds the most beyond its own share. From a .NET
// host, one lease is stolen. A Halley host gets requests for all that is missing
// and releases each lease after the current batch, so that no change is delivered
// twice; if it does not release a lease in time, the requester steals that, too.
// A requested lease counts as the requester's, and when it becomes free the other
// hosts leave it alone.
func Plan(views []View, function, me string, limits Limits) []Step {
	steps, free, held := sortViews(views, me)
	shares := equalShares(len(views), function, slices.Collect(maps.Keys(held)))
	need := limits.clampShare(shares[me]) - held[me]
	switch {
	case need <= 0:
		return append(steps, acquireUnclaimed(views, held[me], limits.Max)...)
	case len(free) > 0:
		return append(steps, free[:min(need, len(free))]...)
	default:
		return append(steps, takeFromOthers(views, held, shares, need, me)...)
	}
}

// sortViews returns the steps for leases that me has requested and may acquire
// now, steps for all free leases, and how many leases each host holds once the
// pending requests are met.
func sortViews(views []View, me string) (requested, free []Step, held map[string]int) {
	held = map[string]int{me: 0}
	for _, v := range views {
		switch {
		case v.RequestedBy == me && (v.Free || v.TimedOut):
			held[me]++
			requested = append(requested, Step{Token: v.Token})
		case v.RequestedBy != "":
			held[v.RequestedBy]++
		case v.Free:
			free = append(free, Step{Token: v.Token})
		default:
			held[v.Owner]++
		}
	}
	return requested, free, held
}

// equalShares returns how many of a function's leases each host should hold: as
// many as the others, or one more if the division leaves a remainder. A hash of
// function and host decides which hosts get one more, so that one host does not
// get all functions of a single range. (.NET leaves that to who comes first.)
func equalShares(leases int, function string, hosts []string) map[string]int {
	rank := func(host string) uint64 {
		h := fnv.New64a()
		h.Write([]byte(function + "/" + host))
		return h.Sum64()
	}
	slices.SortFunc(hosts, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	shares := make(map[string]int, len(hosts))
	for i, host := range hosts {
		shares[host] = leases / len(hosts)
		if i < leases%len(hosts) {
			shares[host]++
		}
	}
	return shares
}

// acquireUnclaimed returns steps for free leases that the hosts below their share
// have not taken, as far as this host's limit allows.
func acquireUnclaimed(views []View, held, limit int) []Step {
	var steps []Step
	for _, v := range views {
		if v.Free && v.Unclaimed && v.RequestedBy == "" && (limit == 0 || held < limit) {
			held++
			steps = append(steps, Step{Token: v.Token})
		}
	}
	return steps
}

// takeFromOthers returns steps for up to need leases of other hosts, but for at
// most one of a .NET host. It counts them in held as me's.
func takeFromOthers(views []View, held, shares map[string]int, need int, me string) []Step {
	var steps []Step
	taken := map[string]bool{}
	for ; need > 0; need-- {
		v, found := takeableView(views, held, shares, need, me, taken)
		if !found {
			break
		}
		taken[v.Token] = true
		steps = append(steps, Step{Token: v.Token, Request: v.Halley})
		held[v.Owner]--
		held[me]++
		if !v.Halley {
			break
		}
	}
	return steps
}

// takeableView finds a lease of the host that holds the most beyond its own limit;
// among equals the last by name. A .NET host keeps as many as its own algorithm
// grants it: stealing repeats deliveries, and is only for missing leases.
func takeableView(views []View, held, shares map[string]int, need int, me string, taken map[string]bool) (found View, ok bool) {
	atMost := (len(views) + len(held) - 1) / len(held)
	if need > 1 {
		atMost--
	}
	most := 0
	for _, v := range views {
		if v.Owner == me || v.Free || v.RequestedBy != "" || taken[v.Token] {
			continue
		}
		keeps := shares[v.Owner]
		if !v.Halley {
			keeps = atMost
		}
		surplus := held[v.Owner] - keeps
		if surplus > most || surplus > 0 && surplus == most && v.Owner > found.Owner {
			found, most = v, surplus
		}
	}
	return found, most > 0
}
