package trigger

import "cmp"

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
// shares. leases come in a stable order.
//
// It is the algorithm of azure-cosmos-dotnet-v3
// (EqualPartitionsBalancingStrategy), so that hosts of both kinds settle: take
// free leases up to the share; where none is free, take from the host that
// holds the most, if that is more than its share. From a .NET host one lease is
// stolen. A Halley host is asked for all that is missing and hands each over
// after the batch in work, so that nothing is delivered twice; a lease that it
// does not hand over in time is stolen after all. What was asked for counts as
// the asker's, and is left to it when it becomes free.
func plan(leases []standing, me string, l limits) []step {
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
	share := share(len(leases), len(held), l)
	need := share - held[me]
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
		s, ok := takeable(leases, held, share, need, me, steps)
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

// share is how many leases each of the hosts should hold.
func share(leases, hosts int, l limits) int {
	n := 1
	if leases > hosts {
		n = (leases + hosts - 1) / hosts
	}
	if l.max > 0 {
		n = min(n, l.max)
	}
	return max(n, l.min)
}

// takeable finds a lease to take from the host that holds the most, if that is
// more than it should.
func takeable(leases []standing, held map[string]int, share, need int, me string, taken []step) (standing, bool) {
	allowed := share // what the richest may keep
	if need > 1 {
		allowed--
	}
	richest := richestOwner(held)
	if richest == me || held[richest] <= allowed {
		return standing{}, false
	}
	for _, s := range leases {
		if s.owner == richest && !s.free && s.asked == "" && !contains(taken, s.token) {
			return s, true
		}
	}
	return standing{}, false
}

func contains(steps []step, token string) bool {
	for _, s := range steps {
		if s.token == token {
			return true
		}
	}
	return false
}

// richestOwner holds the most leases; among equals the last by name.
func richestOwner(held map[string]int) string {
	var richest string
	most := -1
	for owner, n := range held {
		if c := cmp.Compare(n, most); c > 0 || c == 0 && owner > richest {
			richest, most = owner, n
		}
	}
	return richest
}
