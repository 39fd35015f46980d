package delivery

import (
	"sync"
	"time"
)

// breaker counts the changes of a range that were dead-lettered without a success
// between them. Many in a row mean that the sink is broken and not the changes:
// Decide then pauses before each further one, so that the range does not empty
// itself into the dead letter store. Lanes share it; mu guards it, and no other
// lock is taken under it.
type breaker struct {
	mu      sync.Mutex
	givenUp int
	last    time.Time
}

// inARow returns the count, and the time of the last change.
func (b *breaker) inARow() (givenUp int, last time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.givenUp, b.last
}

func (b *breaker) addGivenUp(changes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.givenUp += changes
	b.last = time.Now()
}

func (b *breaker) resetCount() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.givenUp = 0
}
