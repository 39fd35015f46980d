package triggertest

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/trigger"
)

// countedContext is the context of a handler call that ends when it was asked for its end
// a number of times. A client of a store asks before each of its calls, and most ask
// within them as well, so that the numbers are the points at which a call can fail. A
// context that is derived from it ends with it, but does not count.
type countedContext struct {
	context.Context
	remaining atomic.Int64
	cancel    context.CancelCauseFunc
}

func newCountedContext(parent context.Context, uses int) *countedContext {
	c := &countedContext{}
	c.Context, c.cancel = context.WithCancelCause(parent)
	c.remaining.Store(int64(uses))
	return c
}

func (c *countedContext) Done() <-chan struct{} {
	c.use()
	return c.Context.Done()
}

func (c *countedContext) Err() error {
	c.use()
	return c.Context.Err()
}

func (c *countedContext) use() {
	if c.remaining.Add(-1) == 0 {
		c.cancel(errTrouble)
	}
}

// failInside makes a call that fails at each of its points, one after the other: its context
// ends there, or its connections are cut.
func (w *World) failInside(ctx context.Context, b trigger.Batch, seed uint64, call trigger.Handler) error {
	w.wires.mu.Lock()
	used := w.wires.used
	w.wires.mu.Unlock()
	random := rand.New(rand.NewPCG(seed, pointStream))
	if used && random.IntN(2) == 0 {
		return atPoints(random, func(message int) (bool, error) {
			w.wires.arm(message)
			err := call(ctx, b)
			return w.wires.disarm(), err
		})
	}
	return atPoints(random, func(use int) (bool, error) {
		counted := newCountedContext(ctx, use)
		defer counted.cancel(nil)
		err := call(counted, b)
		return counted.remaining.Load() <= 0, err
	})
}

// maxPoints bounds the calls that end inside, for handlers whose calls differ.
const maxPoints = 100

// atPoints makes a call that fails at its first point, then one that fails at a later one,
// and so on, until a call has ended before its point. The verdicts of the others do not
// count. After the first eight points some are left out, by seed others in each episode.
func atPoints(random *rand.Rand, call func(point int) (failed bool, err error)) error {
	for point, calls := 1, 0; ; calls++ {
		if calls == maxPoints {
			point = math.MaxInt32 // in peace
		}
		if failed, err := call(point); !failed || calls == maxPoints {
			return err
		}
		point += 1 + random.IntN(1+point/8)
	}
}

// storeCalls carries the requests of a handler to the account. If the context of a request
// has ended, it does not arrive; if it ends meanwhile, the request has its effect, but the
// answer does not arrive.
type storeCalls struct{ account policy.Transporter }

func (s storeCalls) Do(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	response, err := s.account.Do(r)
	if err == nil && r.Context().Err() != nil {
		_ = response.Body.Close() // nothing is in it that matters
		return nil, r.Context().Err()
	}
	return response, err
}
