package account

import (
	"context"

	"halley/function/app/internal/settings"
	"halley/handlers"
)

// Inspect returns a function's settings, containers and leases for a command of the app's
// own. It makes an account's first request, so that a command fails at once if the account
// cannot be reached.
func Inspect(ctx context.Context, source settings.Source, function string) (handlers.Inspection, error) {
	s, err := settings.Load(source)
	if err == nil {
		err = s.Only(function)
	}
	if err != nil {
		return handlers.Inspection{}, err
	}
	f := s.Functions[0]
	clients := CommandClients()
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
