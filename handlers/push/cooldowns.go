package push

import (
	"maps"
	"sync"
	"time"
)

// cooldownTime is how long a device gets no request after it has not answered one in
// time.
const cooldownTime = 5 * time.Minute

// cooldowns are the devices that get no request, because they have not answered one in
// time. The zero value is empty; it is safe for concurrent use.
type cooldowns struct {
	mu    sync.Mutex           // guards until
	until map[string]time.Time // by the address of the device
}

func (c *cooldowns) add(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.until == nil {
		c.until = make(map[string]time.Time)
	}
	maps.DeleteFunc(c.until, func(_ string, end time.Time) bool { return !end.After(now) })
	c.until[address] = now.Add(cooldownTime)
}

func (c *cooldowns) contain(address string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.until[address])
}
