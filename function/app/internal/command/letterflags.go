package command

import (
	"context"
	"errors"
	"iter"
	"slices"

	"go.uber.org/zap"

	"halley/function/app/internal/account"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/operate"
	"halley/function/app/internal/settings"
)

// letterFlags holds the flags of the commands of dead letters.
type letterFlags struct {
	operate.Selection
	program  *hosting.Program
	function string // "" is all
	json     bool
}

// openStores opens the stores of the enabled functions that keep dead letters, or
// that of the named function. It opens no handler.
func (p *letterFlags) openStores(ctx context.Context) ([]operate.Store, error) {
	s, err := p.loadKeeping()
	if err != nil {
		return nil, err
	}
	clients := account.CommandClients()
	var stores []operate.Store
	for _, f := range s.Functions {
		store, err := clients.OpenDeadLetters(f, zap.NewNop())
		if err != nil {
			return nil, err
		}
		at, err := clients.Open(f)
		if err == nil && f.DeadLetters.Row().InCosmos {
			err = clients.Reach(ctx, f)
		}
		if err != nil {
			return nil, err
		}
		stores = append(stores, operate.Store{Function: f.Name, Source: f.TriggerFunction(at.Monitored).DeadLetterSource(), DeadLetters: store})
	}
	return stores, nil
}

// loadKeeping reads the settings of the enabled functions that keep dead letters,
// or of the named function. A directory that does not exist is an error, because
// opening it as a store would create it.
func (p *letterFlags) loadKeeping() (*settings.Settings, error) {
	s, err := settings.Load(p.program.Source)
	if err == nil {
		err = s.Only(p.function)
	}
	if err != nil {
		return nil, err
	}
	s.Functions = slices.DeleteFunc(s.Functions, func(f settings.Function) bool { return !f.DeadLetters.Row().Keeps })
	if len(s.Functions) == 0 {
		return nil, errors.New("no enabled function keeps dead letters: set HALLEY_DEAD_LETTERS=container")
	}
	for _, f := range s.Functions {
		if err := f.CheckDirectory(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// whole yields dead letters that were all read.
func whole(letters []operate.StoredLetter) iter.Seq2[operate.StoredLetter, error] {
	return func(yield func(operate.StoredLetter, error) bool) {
		for _, l := range letters {
			if !yield(l, nil) {
				return
			}
		}
	}
}
