package stream

import (
	"errors"
	"fmt"

	"halley/trigger"
)

// ErrTooLarge marks the error of a message that the broker never takes.
var ErrTooLarge = errors.New("message is too large")

// Published counts the messages that the broker has acknowledged, see [Verdict].
func Published(failures []error) (published int) {
	for _, err := range failures {
		if err == nil {
			published++
		}
	}
	return published
}

// Verdict returns the error of a handler call from the outcomes of its messages: failures
// has the error of each message, nil if the broker has acknowledged it. A message after
// one that failed, of the same key, counts as failed too, so that the order of the key
// holds when they are published again.
func Verdict(messages []Message, failures []error) error {
	failedKeys := map[string]error{}
	var retried []trigger.Change
	var parts []error
	var first error
	for i, m := range messages {
		err := failures[i]
		if errors.Is(err, ErrTooLarge) {
			parts = append(parts, trigger.Skip(trigger.Failed(fmt.Errorf("publish document %q: %w", m.Change.ID(), err), m.Change)))
			continue
		}
		if err == nil {
			err = failedKeys[string(m.Key)]
		}
		if err == nil {
			continue
		}
		failedKeys[string(m.Key)] = err
		if first == nil {
			first = err
		}
		retried = append(retried, m.Change)
	}
	if len(retried) == len(messages) && first != nil {
		return fmt.Errorf("publish %d changes: %w", len(messages), first)
	}
	if first != nil {
		parts = append(parts, trigger.Failed(fmt.Errorf("publish %d of %d changes: %w", len(retried), len(messages), first), retried...))
	}
	return errors.Join(parts...)
}
