// Package crash kills host processes with -9, at random and at named points,
// while ranges split and merge, and has package history judge what they
// delivered.
//
// The account runs in the test's process and is served over TCP. Each life of a
// host has a listener of its own, so that every request is known to be that
// host's, and a point is exact: the host is dead before a request is carried
// out, after it was carried out and before it is answered, or right after the
// answer; and a request that has left a dead host may still be carried out
// later, behind the back of its next owner.
//
//	scripts/crash --kills 300
package crash
