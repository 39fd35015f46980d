package handlerstest

import (
	"flag"
	"os"
	"strconv"
)

// IsLong reports whether the long forms of tests run: HALLEY_TEST_LONG is not empty, as in
// continuous integration.
func IsLong() bool { return isLong }

// isLong is read at the start, because some tests clean the environment.
var isLong = os.Getenv("HALLEY_TEST_LONG") != ""

// ShortOrLong is the size of a test in the form that runs.
func ShortOrLong(short, long int) int {
	if IsLong() {
		return long
	}
	return short
}

// Seeds is the number of seeds of triggertest.Converges for Halley's own handlers: in the long
// form as many as meet every case of trouble.
func Seeds() int { return ShortOrLong(3, 8) }

// AtOnce lets a package whose tests mostly wait run n of them at a time, unless -parallel is
// set. TestMain calls it.
func AtOnce(n int) {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if !isSet {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // a number is always accepted
	}
}
