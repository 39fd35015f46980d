package command

import (
	"context"
	"errors"
	"time"

	"halley/function/app/internal/account"
	"halley/function/app/internal/operate"
	"halley/function/app/internal/settings"
	"halley/trigger/leases"
)

// leaseSelection holds the flags of the lease commands.
type leaseSelection struct {
	source   settings.Source
	function string
	json     bool

	// Of commands that change leases.
	ranges             []string
	yes, dryRun, force bool
	wait               time.Duration
	backup             string
}

// open returns the controls of the selected functions. It opens no handler.
func (p *leaseSelection) open(ctx context.Context) ([]operate.FunctionLeases, error) {
	s, err := settings.Load(p.source)
	if err == nil {
		err = s.Only(p.function)
	}
	if err != nil {
		return nil, err
	}
	if len(p.ranges) > 0 && len(s.Functions) > 1 {
		return nil, errors.New("--range needs --function: the ranges of a function have their own tokens")
	}
	clients := account.CommandClients()
	var opened []operate.FunctionLeases
	for _, f := range s.Functions {
		at, err := clients.Open(f)
		if err == nil {
			err = clients.Reach(ctx, f)
		}
		if err != nil {
			return nil, err
		}
		control, err := leases.NewControl(at.Leases, f.LeaseSource(at.Monitored), &leases.ControlOptions{Force: p.force})
		if err != nil {
			return nil, err
		}
		opened = append(opened, operate.FunctionLeases{Function: f.Name, Control: control})
	}
	return opened, nil
}
