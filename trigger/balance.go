package trigger

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
)

// standing is what balancing needs to know of a lease.
type standing struct {
	token   string
	owner   string
	free    bool   // without owner, or expired
	halley  bool   // the owner is a Halley host, which gives leases up when asked
	asked   string // the host that asked for the lease, while it may hope for it; or ""
	left    bool   // free for so long that no host below its share wants or may have it
	ignored bool   // asked, and not answered for so long that it may be taken
}

// step is one thing to do about a lease.
type step struct {
	token string
	ask   bool // ask its owner to hand it over; otherwise acquire it
}

// limits are what a host may hold beyond or below its equal share; 0 is none.
type limits struct{ min, max int }

// plan lists what host me should do now so that the hosts come to hold equal
// shares of a function's leases, which come in a stable order.
//
// It follows azure-cosmos-dotnet-v3 (EqualPartitionsBalancingStrategy), so that
// hosts of both kinds settle: take free leases up to the share; where none is
// free, take from the host that holds the most beyond its own. From a .NET host
// one lease is stolen. A Halley host is asked for all that is missing and hands
// each over after the batch in work, so that nothing is delivered twice; a lease
// that it does not hand over in time is stolen after all. What was asked for
// counts as the asker's, and is left to it when it becomes free.
func plan(leases []standing, function, me string, l limits) []step {
	var steps []step
	var free []string
	held := map[string]int{me: 0}
	for _, s := range leases {
		switch {
		case s.asked == me && (s.free || s.ignored):
			held[me]++
			steps = append(steps, step{token: s.token})
		case s.asked != "":
			held[s.asked]++
		case s.free:
			free = append(free, s.token)
		default:
			held[s.owner]++
		}
	}
	shares := shares(len(leases), function, slices.Collect(maps.Keys(held)))
	need := l.clamp(shares[me]) - held[me]
	if need <= 0 { // what the hosts below their share leave lying
		for _, s := range leases {
			if s.free && s.left && s.asked == "" && (l.max == 0 || held[me] < l.max) {
				held[me]++
				steps = append(steps, step{token: s.token})
			}
		}
		return steps
	}
	if len(free) > 0 {
		for _, token := range free[:min(need, len(free))] {
			steps = append(steps, step{token: token})
		}
		return steps
	}
	for ; need > 0; need-- {
		s, ok := takeable(leases, held, shares, need, me, steps)
		if !ok {
			break
		}
		steps = append(steps, step{token: s.token, ask: s.halley})
		held[s.owner]--
		held[me]++
		if !s.halley {
			break
		}
	}
	return steps
}

func (l limits) clamp(share int) int {
	if l.max > 0 {
		share = min(share, l.max)
	}
	return max(share, l.min)
}

// shares is how many of a function's leases each of the hosts should hold: as
// many as the others, or one more where that does not come out even. Who has one
// more differs from function to function, as a hash of both decides: else one
// host would have all the functions of a single range. (.NET leaves it to who
// comes first.)
func shares(leases int, function string, hosts []string) map[string]int {
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

// takeable finds a lease to take from the host that holds the most beyond what
// it may keep; among equals the last by name. A .NET host may keep what its own
// algorithm gives it: stealing repeats deliveries, and is for what it lacks alone.
func takeable(leases []standing, held, shares map[string]int, need int, me string, taken []step) (standing, bool) {
	atMost := (len(leases) + len(held) - 1) / len(held)
	if need > 1 {
		atMost--
	}
	var found standing
	most := 0
	for _, s := range leases {
		if s.owner == me || s.free || s.asked != "" || contains(taken, s.token) {
			continue
		}
		keeps := shares[s.owner]
		if !s.halley {
			keeps = atMost
		}
		surplus := held[s.owner] - keeps
		if surplus > most || surplus > 0 && surplus == most && s.owner > found.owner {
			found, most = s, surplus
		}
	}
	return found, most > 0
}

func contains(steps []step, token string) bool {
	for _, s := range steps {
		if s.token == token {
			return true
		}
	}
	return false
}
