// Differential sends the same random requests to two accounts, and names each kind of
// answer that differs. One seed makes the same requests each time.
//
//	differential [-seed N] [-requests N] [-regions]
//
// With -regions the accounts have two regions each, and the requests are about those.
//
// The accounts are at EMBEDDED_ENDPOINT and MICROSOFT_ENDPOINT. Each line of the output is a
// difference: request, answer of the embedded account, answer of Microsoft's account, how
// often, and after how many requests first, with tabs between.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
)

func main() {
	seed := flag.Uint64("seed", 1, "seed of the requests")
	requests := flag.Int("requests", 2000, "how many requests to send")
	regional := flag.Bool("regions", false, "the accounts have two regions")
	flag.Parse()
	if err := run(*seed, *requests, *regional); err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		os.Exit(1)
	}
}

func run(seed uint64, requests int, regional bool) error {
	p := &pair{dice: rand.New(rand.NewPCG(seed, 0)), differences: map[difference]*sighting{}}
	for i, name := range []string{"EMBEDDED_ENDPOINT", "MICROSOFT_ENDPOINT"} {
		p.accounts[i] = newAccount(os.Getenv(name))
	}
	if err := p.prepare(); err != nil {
		return err
	}
	step := p.step
	if regional {
		r, err := newRegionalPair(p)
		if err != nil {
			return err
		}
		step = r.step
	}
	for p.sent < requests {
		if err := step(); err != nil {
			return fmt.Errorf("request %d: %w", p.sent, err)
		}
	}
	p.report(os.Stdout)
	return nil
}
