package settings

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// CheckDirectory refuses a directory of dead letters that no host has created.
func (f *Function) CheckDirectory() error {
	if !f.DeadLetters.Row().OnDisk {
		return nil
	}
	if _, err := os.Stat(f.DeadLetters.Name); err != nil {
		return fmt.Errorf("%s=%s: %w: the functions' hosts create it when they start; correct the path", f.Variable("DEAD_LETTERS"), f.DeadLetters, err)
	}
	return nil
}

// DeadLetterContainer returns the Cosmos DB container of the dead letters, if
// they are stored in one.
func (f *Function) DeadLetterContainer() (in Place, ok bool) {
	if !f.DeadLetters.Row().InCosmos {
		return Place{}, false
	}
	in = f.LeasePlace()
	if f.DeadLetters.Name != "" {
		in.Container = f.DeadLetters.Name
	}
	return in, true
}

// retained refuses a retention that the store cannot keep, or that would lose changes which
// wait behind a dead letter.
func (f *Function) retained() error {
	name, retention := f.Variable("DEAD_LETTER_RETENTION"), time.Duration(f.DeadLetterRetention)
	switch {
	case retention == 0:
		return nil
	case !f.DeadLetters.Row().InCosmos:
		return fmt.Errorf("%s=%v needs dead letters in a container, and %s is %s: remove it; the storage account has rules for the life of blobs", name, retention, f.Variable("DEAD_LETTERS"), f.DeadLetters)
	case bool(f.BlockKeys):
		return fmt.Errorf("%s=%v would end dead letters that later changes of their keys wait for: remove it, or set %s=false", name, retention, f.Variable("BLOCK_KEYS"))
	case retention%time.Second != 0:
		return fmt.Errorf("%s=%v: write whole seconds", name, retention)
	}
	return nil
}

// separateDeadLetters refuses dead letters in a monitored container, because each
// of them would be a change.
func (s *Settings) separateDeadLetters() error {
	var errs []error
	for _, f := range s.Functions {
		in, ok := f.DeadLetterContainer()
		if !ok {
			continue
		}
		for _, other := range s.Functions {
			if other.MonitoredPlace() == in && other.ContainerName != "" {
				errs = append(errs, fmt.Errorf("%s=%s is the monitored container of %s: keep dead letters in another",
					f.Variable("DEAD_LETTERS"), f.DeadLetters, other.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// storeConnected refuses dead letters in another account without its connection.
func (f *Function) storeConnected() error {
	if !f.DeadLetters.Row().connected || f.DeadLettersConnection != "" {
		return nil
	}
	return fmt.Errorf("%s=\"\": %s=%v needs another account: name its connection",
		f.Variable("DEAD_LETTERS_CONNECTION"), f.Variable("DEAD_LETTERS"), f.DeadLetters)
}
