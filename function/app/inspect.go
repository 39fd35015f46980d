package app

import (
	"context"

	"halley/handlers"
)

// Inspect gives one of the app's own commands access to a function: its settings, its
// containers and its leases. It makes an account's first request, so that a command
// fails at once if the account cannot be reached.
//
//	options.Commands = []*cobra.Command{migrate.Command(options.Inspect)}
func (o Options) Inspect(ctx context.Context, function string) (handlers.Inspection, error) {
	o = o.withDefaults()
	s, err := loadSettings(o)
	if err == nil {
		err = s.only(function)
	}
	if err != nil {
		return handlers.Inspection{}, err
	}
	f := s.Functions[0]
	clients := commandAccounts()
	at, err := clients.open(f)
	if err == nil {
		err = clients.reach(ctx, f)
	}
	if err != nil {
		return handlers.Inspection{}, err
	}
	env, fn := clients.env(f, at.monitored, nil), f.function(at.monitored)
	env.Prefix, fn.DeadLetters = f.Prefix(), nil
	return handlers.Inspection{Env: env, Settings: f.Own, Function: fn, Leases: at.leases}, nil
}
