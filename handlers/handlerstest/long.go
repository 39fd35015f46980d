package handlerstest

import "os"

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
