// Package orders is the handler of the tests of the operators' page: its sink refuses
// some documents and is slow with others until it is repaired.
package orders

import (
	"context"
	"fmt"
	"os"
	"time"

	"halley/handlers"
	"halley/trigger"
)

// Settings are environment variables with the prefix HALLEY_ORDERS_.
type Settings struct {
	Repaired string `split_words:"true" desc:"file that exists when the sink is repaired"`
}

// Document has the properties that the handler reads.
type Document struct {
	ID   string `json:"id"`
	Fail bool   `json:"fail"`
	Slow bool   `json:"slow"`
}

// Open returns the handler.
func Open(_ context.Context, _ handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	handle := func(ctx context.Context, documents []Document) error {
		for _, d := range documents {
			for d.Slow && !exists(s.Repaired) {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(50 * time.Millisecond):
				}
			}
			if d.Fail && !exists(s.Repaired) {
				return fmt.Errorf("the sink refuses order %s", d.ID)
			}
		}
		return nil
	}
	return trigger.Documents(handle), nil, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
