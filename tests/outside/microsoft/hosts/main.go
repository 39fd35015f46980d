// Hosts runs Halley's hosts on an account that another vendor wrote, and compares what they
// deliver with what was written: a drain, one host, two hosts with a split between their
// stops, the lag of halley status, and the feed of all versions.
package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	a, err := newAccount(ctx, os.Getenv("OUTSIDE_ENDPOINT"), os.Getenv("OUTSIDE_KEY"))
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	failed := false
	for _, s := range scenarios() {
		verdict := "ok"
		if seen, err := s.run(ctx, a); err != nil {
			verdict, failed = "failed: "+err.Error(), true
		} else if seen != "" {
			verdict += ", " + seen
		}
		fmt.Printf("%s: %s\n", s.name, verdict)
	}
	if failed {
		os.Exit(1)
	}
}

// scenario is one use of hosts, on a container of its own.
type scenario struct {
	name string
	run  func(context.Context, *account) (seen string, err error)
}

func scenarios() []scenario {
	return []scenario{
		{"two drains", twoDrains},
		{"one host", oneHost},
		{"two hosts, a split and a handover", twoHosts},
		{"status", statusShowsLag},
		{"all versions", allVersions},
	}
}
