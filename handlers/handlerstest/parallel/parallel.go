// Package parallel lets tests that mostly wait run beside each other. It is apart from
// handlerstest because that brings flags of its own. Only tests import this package.
package parallel

import (
	"flag"
	"strconv"
)

// AtOnce lets a package run n parallel tests at a time, unless -parallel is set. TestMain
// calls it.
func AtOnce(n int) {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if !isSet {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // a number is always accepted
	}
}
