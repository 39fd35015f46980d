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
	Halley bool // the owner is a Halley host, which answers handover requests

	RequestedBy string // host with a pending handover request, or ""
	Unclaimed   bool   // free for longer than one acquire interval: every host below its share has had its turn
}

// Step is one action of a host for one lease: it acquires the lease, unless it is another.
type Step struct {
	Token   string
	Request bool // request a handover from the owner
	Watch   bool // watch the lease until its owner releases it, as this host has requested
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
	v := View{Token: l.token, Owner: l.owner, Free: l.Free(now, expiration), Halley: l.answersRequests()}
	v.Unclaimed = v.Free && now.Sub(l.freeFrom(expiration)) > acquireInterval+time.Second
	v.RequestedBy = handoverRequest(l, now, expiration)
	return v
}

// Plan returns the steps that host me should take now so that the hosts come to
// hold equal shares of a function's leases. The views are in a stable order.
//
// It follows azure-cosmos-dotnet-v3 (EqualPartitionsBalancingStrategy), so that
// hosts of both kinds settle: acquire free leases up to the share; if none is
// free, take from the host that holds the most beyond its own share. From a .NET
// host, one lease is stolen. A Halley host gets requests for all that is missing
// and releases each lease when its running handler calls have returned, so that no
// change is delivered twice. A requested lease counts as the requester's, and when
// it becomes free the other hosts leave it alone.
func Plan(views []View, function, me string, limits Limits) []Step {
	steps, free, held := sortViews(views, me)
	shares := equalShares(len(views), function, slices.Collect(maps.Keys(held)))
	need := limits.clampShare(shares[me]) - held[me]
	switch {
	case need <= 0:
		return append(steps, acquireUnclaimed(views, held[me], limits.Max)...)
	case len(free) > 0:
		free = fromPlace(free, missingBefore(shares, held, me)%len(free))
		return append(steps, free[:min(need, len(free))]...)
	default:
		return append(steps, takeFromOthers(views, held, shares, need, me)...)
	}
}

// sortViews returns the steps for leases that me has requested, to acquire those that are
// free and to watch the others, steps for all free leases, and how many leases each host
// holds once the pending requests are met.
func sortViews(views []View, me string) (requested, free []Step, held map[string]int) {
	held = map[string]int{me: 0}
	for _, v := range views {
		switch {
		case v.RequestedBy == me:
			held[me]++
			requested = append(requested, Step{Token: v.Token, Watch: !v.Free})
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
	ranks := make(map[string]uint64, len(hosts))
	for _, host := range hosts {
		ranks[host] = hashOf(function + "/" + host)
	}
	slices.SortFunc(hosts, func(a, b string) int { return cmp.Or(cmp.Compare(ranks[a], ranks[b]), cmp.Compare(a, b)) })
	shares := make(map[string]int, len(hosts))
	for i, host := range hosts {
		shares[host] = leases / len(hosts)
		if i < leases%len(hosts) {
			shares[host]++
		}
	}
	return shares
}

// missingBefore returns how many leases the hosts before me, by name, are missing of their shares,
// so that hosts that plan at the same time acquire different free leases.
func missingBefore(shares, held map[string]int, me string) (missing int) {
	for host, share := range shares {
		if host < me {
			missing += max(share-held[host], 0)
		}
	}
	return missing
}

// hostsToTell returns the hosts that are missing leases of their shares now that host me has stopped
// and released some. There are none if most of the recently released leases are of others: many hosts
// seem to stop, and those that were told would acquire leases to release them in a moment.
func hostsToTell(views []View, function, me string, released int) (hosts []string) {
	recent := 0
	for _, v := range views {
		if v.Free && !v.Unclaimed && v.RequestedBy == "" {
			recent++
		}
	}
	_, _, held := sortViews(views, me)
	delete(held, me)
	if len(held) == 0 || released == 0 || recent > 2*released {
		return nil
	}
	for host, share := range equalShares(len(views), function, slices.Collect(maps.Keys(held))) {
		if held[host] < share {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// fromPlace returns a list that begins at a place of another, and ends with the entries before it.
func fromPlace[T any](list []T, place int) []T { return slices.Concat(list[place:], list[:place]) }

func hashOf(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
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
// most one of an owner that does not answer requests. It counts them in held as me's.
func takeFromOthers(views []View, held, shares map[string]int, need int, me string) []Step {
	var steps []Step
	owners := takeableLeases(views, me)
	rotateRequests(owners, held, me)
	for ; need > 0; need-- {
		from := largestSurplus(owners, held, shares, len(views), need)
		if from == nil {
			break
		}
		steps = append(steps, Step{Token: from.tokens[0], Request: from.halley})
		from.tokens = from.tokens[1:]
		held[from.owner]--
		held[me]++
		if !from.halley {
			break
		}
	}
	return steps
}

// takeable are the leases that may be taken from one owner, in their order.
type takeable struct {
	owner  string
	halley bool // see View; one owner may have leases of both kinds during an upgrade
	tokens []string
}

// takeableLeases groups the leases that host me may take by their owners, in the
// order in which the owners first appear.
func takeableLeases(views []View, me string) []*takeable {
	type kind struct {
		owner  string
		halley bool
	}
	var owners []*takeable
	byKind := map[kind]*takeable{}
	for _, v := range views {
		if v.Owner == me || v.Free || v.RequestedBy != "" {
			continue
		}
		group := byKind[kind{v.Owner, v.Halley}]
		if group == nil {
			group = &takeable{owner: v.Owner, halley: v.Halley}
			byKind[kind{v.Owner, v.Halley}] = group
			owners = append(owners, group)
		}
		group.tokens = append(group.tokens, v.Token)
	}
	return owners
}

// rotateRequests has each host begin at another place of an owner's leases: hosts that plan at
// the same time would else request the same leases, and only one of them would get each.
func rotateRequests(owners []*takeable, held map[string]int, me string) {
	hosts := slices.Sorted(maps.Keys(held))
	place := slices.Index(hosts, me)
	for _, group := range owners {
		if group.halley {
			group.tokens = fromPlace(group.tokens, len(group.tokens)*place/len(hosts))
		}
	}
}

// largestSurplus returns the owner that holds the most beyond its own limit, nil if
// no owner does; among equals the last by name. An owner that does not answer
// requests keeps as many as .NET's algorithm grants it: stealing repeats
// deliveries, and is only for missing leases.
func largestSurplus(owners []*takeable, held, shares map[string]int, leases, need int) (found *takeable) {
	atMost := (leases + len(held) - 1) / len(held)
	if need > 1 {
		atMost--
	}
	largest := 0
	for _, group := range owners {
		if len(group.tokens) == 0 {
			continue
		}
		keeps := shares[group.owner]
		if !group.halley {
			keeps = atMost
		}
		surplus := held[group.owner] - keeps
		if surplus > largest || surplus > 0 && surplus == largest && group.owner > found.owner {
			found, largest = group, surplus
		}
	}
	return found
}
