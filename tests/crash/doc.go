// Package crash kills host processes with -9, at random and at named points,
// while ranges split and merge. Package history judges their deliveries.
//
// The account runs in the test's process and is served over TCP. Each process of
// a host has its own listener, so the test knows the sender of every request,
// and a point is exact: the host is killed before a request is applied, when it
// has been applied but not answered, or right after the answer. If a host is
// killed while its request is pending, the request may be applied later, when
// the lease has another owner.
//
//	scripts/crash --kills 300
package crash
