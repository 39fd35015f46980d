package app

import (
	"context"

	"halley/function/app/internal/account"
	"halley/function/app/internal/settings"
	"halley/handlers"
)

// Inspect gives one of the app's own commands access to a function: its settings, its
// containers and its leases. It makes an account's first request, so that a command
// fails at once if the account cannot be reached.
//
//	options.Commands = []*cobra.Command{migrate.Command(options.Inspect)}
func (o Options) Inspect(ctx context.Context, function string) (handlers.Inspection, error) {
	o = o.withDefaults()
	s, err := settings.Load(o.source())
	if err == nil {
		err = s.Only(function)
	}
	if err != nil {
		return handlers.Inspection{}, err
	}
	f := s.Functions[0]
	clients := account.CommandClients()
	at, err := clients.Open(f)
	if err == nil {
		err = clients.Reach(ctx, f)
	}
	if err != nil {
		return handlers.Inspection{}, err
	}
	env, fn := clients.Env(f, at.Monitored, nil), f.TriggerFunction(at.Monitored)
	env.Prefix, fn.DeadLetters = f.Prefix(), nil
	return handlers.Inspection{Env: env, Settings: f.Own, Function: fn, Leases: at.Leases}, nil
}
