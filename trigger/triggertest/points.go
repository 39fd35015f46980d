package triggertest

import (
	"context"
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

// maxPoints bounds the calls that end inside, for handlers whose calls differ.
const maxPoints = 100

// callAtPoints calls the handler with a context that ends at its first use, then again with
// one that ends at a later use, and so on, until a call has ended before its context. The
// verdicts of the others do not count. After the first eight points it leaves some out, by
// seed others in each episode.
func callAtPoints(ctx context.Context, b trigger.Batch, seed uint64, call trigger.Handler) error {
	random := rand.New(rand.NewPCG(seed, pointStream))
	uses := 1
	for range maxPoints {
		counted := newCountedContext(ctx, uses)
		err := call(counted, b)
		ended := counted.remaining.Load() <= 0
		counted.cancel(nil)
		if !ended {
			return err
		}
		uses += 1 + random.IntN(1+uses/8)
	}
	return call(ctx, b)
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
