package trigger

import "cmp"

// standing is what balancing needs to know of a lease.
type standing struct {
	token string
	owner string
	free  bool // without owner, or expired
}

// plan lists the leases, by token, that host me should acquire now so that the
// hosts come to hold equal shares. It is the algorithm of
// azure-cosmos-dotnet-v3 (EqualPartitionsBalancingStrategy), so that hosts of
// both kinds settle: take free leases up to the share; where none is free,
// take one from the host that holds the most, if that is more than its share.
// leases come in a stable order.
func plan(leases []standing, me string) []string {
	if len(leases) == 0 {
		return nil
	}
	var free []string
	held := map[string]int{me: 0}
	for _, l := range leases {
		if l.free {
			free = append(free, l.token)
		} else {
			held[l.owner]++
		}
	}
	share := 1
	if len(leases) > len(held) {
		share = (len(leases) + len(held) - 1) / len(held)
	}
	need := share - held[me]
	if need <= 0 {
		return nil
	}
	if len(free) > 0 {
		return free[:min(need, len(free))]
	}
	allowed := share // what the richest may hold before one is taken
	if need > 1 {
		allowed--
	}
	richest := richestOwner(held)
	if held[richest] <= allowed {
		return nil
	}
	for _, l := range leases {
		if l.owner == richest {
			return []string{l.token}
		}
	}
	return nil
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
