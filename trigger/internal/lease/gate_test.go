package lease

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// While writes are refused, many writers wait for the next probe. Each is told another
// moment, so that which of them sends it does not depend on the order of goroutines, and one
// of them sends it.
func TestWritersThatWaitForOneProbeAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newWriteGate(slog.New(slog.DiscardHandler))
		g.refuse("refused", false, 0, errors.New("429"))
		turns := map[time.Time]string{}
		for i := range 20 {
			token := fmt.Sprint(i)
			retryTime, allowed := g.mayCheckpoint(token, func() {})
			if wait := time.Until(retryTime); allowed || wait < minProbePeriod || wait > minProbePeriod+probeSpread {
				t.Errorf("lease %s may be written: %v, and is told to wait for %s", token, allowed, wait)
			}
			if other, taken := turns[retryTime]; taken {
				t.Errorf("leases %s and %s ask at one moment", token, other)
			}
			turns[retryTime] = token
		}
		time.Sleep(minProbePeriod + probeSpread)
		probes := 0
		for i := range 20 {
			if _, allowed := g.mayCheckpoint(fmt.Sprint(i), func() {}); allowed {
				probes++
			}
		}
		if probes != 1 {
			t.Errorf("%d probes are sent in one period", probes)
		}
	})
}
