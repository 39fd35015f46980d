package operatorpage

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"go.uber.org/zap"

	"halley/function/app/internal/account"
	"halley/function/app/internal/operate"
	"halley/function/app/internal/page"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/leases"
)

// Operator does for the viewers of the page what the commands status, deadletters and
// leases do on a terminal. Its methods may be called by any goroutine.
type Operator struct {
	settings *settings.Settings
	accounts account.Clients                                 // whose clients are all there
	opened   func(function string) (trigger.Function, error) // with its handler and its store
	Log      *zap.Logger
}

// NewOperator returns an operator with clients of its own, so that its requests neither
// count in the metrics of the hosts nor wait as long.
func NewOperator(s *settings.Settings, transport policy.Transporter, opened func(string) (trigger.Function, error)) (*Operator, error) {
	o := &Operator{settings: s, accounts: account.CommandClients(), opened: opened, Log: zap.NewNop()}
	o.accounts.Transport = transport
	for _, f := range s.Functions {
		if _, err := o.accounts.Open(f); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// Source completes a source of the page.
func (o *Operator) Source(p *Source) page.Source {
	p.settings, p.accounts = o.settings, o.accounts
	shown := page.Source{Look: p.look, Behind: p.behind, DeadLetters: o.deadLetters, FindDeadLetter: o.FindDeadLetter, ExportDeadLetters: o.exportDeadLetters, ExportLeases: o.exportLeases}
	for _, v := range o.settings.Values {
		shown.Settings = append(shown.Settings, page.Setting{Name: v.Name, Value: v.Value, Source: v.Source})
	}
	return shown
}

// Actions are the actions of the page.
func (o *Operator) Actions() []page.Action {
	return []page.Action{
		{Name: "replay", Plan: o.planReplay},
		{Name: "discard", Plan: o.planDiscard},
		{Name: "pause", Plan: o.planLeases},
		{Name: "resume", Plan: o.planLeases},
		{Name: "release", Plan: o.planLeases},
		{Name: "seek", Plan: o.planLeases},
	}
}

// function returns the settings of an enabled function.
func (o *Operator) function(name string) (settings.Function, error) {
	i := slices.IndexFunc(o.settings.Functions, func(f settings.Function) bool { return f.Name == name })
	if i < 0 {
		return settings.Function{}, fmt.Errorf("no function %q is enabled: name one of %s", name, o.settings.App.Functions)
	}
	return o.settings.Functions[i], nil
}

// store returns the store of a function's dead letters.
func (o *Operator) store(name string) (operate.Store, trigger.Function, error) {
	fn, err := o.opened(name)
	if err != nil {
		return operate.Store{}, fn, err
	}
	return operate.Store{Function: name, Source: fn.DeadLetterSource(), DeadLetters: fn.DeadLetters}, fn, nil
}

// found iterates over what find finds.
func (o *Operator) found(ctx context.Context, pick *operate.Selection, wanted page.Selection) iter.Seq2[operate.StoredLetter, error] {
	return func(yield func(operate.StoredLetter, error) bool) { o.find(ctx, pick, wanted, yield) }
}

func (o *Operator) exportDeadLetters(ctx context.Context, out io.Writer, wanted page.Selection) error {
	pick, _ := storedSelection(wanted)
	return operate.PrintLines(out, o.found(ctx, &pick, wanted))
}

func (o *Operator) exportLeases(ctx context.Context, out io.Writer, function string) error {
	of, err := o.leases(function, false)
	if err != nil {
		return err
	}
	return operate.ExportLeases(ctx, []operate.FunctionLeases{of}, out)
}

// leases returns the control of the leases of a function.
func (o *Operator) leases(name string, force bool) (of operate.FunctionLeases, err error) {
	f, err := o.function(name)
	if err != nil {
		return of, err
	}
	at, err := o.accounts.Open(f)
	if err != nil {
		return of, err
	}
	control, err := leases.NewControl(at.Leases, f.LeaseSource(at.Monitored), &leases.ControlOptions{Force: force})
	return operate.FunctionLeases{Function: name, Control: control}, err
}

// planLeases plans a change of the leases of a function, of one range or of all.
func (o *Operator) planLeases(ctx context.Context, r page.Request) (plan page.Plan, err error) {
	of, err := o.leases(r.Select.Function, r.Args.Force)
	if err != nil {
		return plan, err
	}
	made, err := planAction(ctx, of, r)
	if err == nil {
		err = made.Refused()
	}
	if err != nil {
		return plan, err
	}
	if plan.Count = operate.CountChanges([]leases.Plan{made}); plan.Count == 0 {
		return plan, fmt.Errorf("nothing to do: %s", r.Select)
	}
	plan.Effects, plan.Warnings = leaseEffects(made), leaseWarnings(r)
	plan.Export = page.Selection{Function: of.Function}.Address("api/v1/leases.json")
	plan.Moved = func(ctx context.Context) error {
		now, err := planAction(ctx, of, r)
		if err != nil {
			return err
		}
		return movedSince(made, now)
	}
	plan.Do = func(ctx context.Context) (string, error) {
		o.Log.Info("leases before an operator action", zap.String("function", of.Function), zap.Any("positions", positionsOf(made)))
		ctx, cancel := context.WithTimeout(ctx, operatorWait)
		defer cancel()
		if err := of.Apply(ctx, made); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s of %s is done: %s", r.Action, of.Function, text.Count(plan.Count, "range")), nil
	}
	return plan, nil
}

// operatorWait is how long an action waits for owners.
const operatorWait = 2 * time.Minute

// planAction plans the action of a request of the page.
func planAction(ctx context.Context, f operate.FunctionLeases, r page.Request) (leases.Plan, error) {
	var ranges []string
	if r.Select.Range != "" {
		ranges = []string{r.Select.Range}
	}
	switch r.Action {
	case "pause":
		return f.PlanPause(ctx, r.Args.Reason, ranges...)
	case "resume":
		return f.PlanResume(ctx, ranges...)
	case "release":
		return f.PlanRelease(ctx, ranges...)
	}
	to, err := leases.ParseSeek(r.Args.To)
	if err != nil {
		return leases.Plan{}, err
	}
	return f.PlanSeek(ctx, to, ranges...)
}

// maxEffects bounds the ranges that a plan lists.
const maxEffects = 50

// leaseEffects are the steps of a plan in words.
func leaseEffects(p leases.Plan) (lines []string) {
	hidden := 0
	for _, s := range p.Steps {
		switch {
		case s.Nothing:
		case len(lines) == maxEffects:
			hidden++
		case s.To != "":
			lines = append(lines, fmt.Sprintf("Range %s, owner %s: %s from %s to %s: %s.", s.Range, operate.OwnerName(s.Owner), s.Action, s.From, s.To, operate.Effect(s)))
		default:
			lines = append(lines, fmt.Sprintf("Range %s, owner %s, at %s: %s.", s.Range, operate.OwnerName(s.Owner), s.From, operate.Effect(s)))
		}
	}
	if hidden > 0 {
		lines = append(lines, fmt.Sprintf("And %d ranges more.", hidden))
	}
	return lines
}

func leaseWarnings(r page.Request) (notes []string) {
	if r.Action == "seek" {
		notes = append(notes, "the failure history of the range is removed; dead letters and blocked keys stay", "numbers of transactions are an upper bound of the changes: the log also has those of containers that share the throughput of the database")
	}
	if r.Args.Force {
		notes = append(notes, "the owner's running calls are not waited for: it may deliver changes that the next owner delivers, too")
	}
	return notes
}

// positionsOf are the continuations that a plan was made at, by range.
func positionsOf(p leases.Plan) map[string]string {
	at := map[string]string{}
	for _, s := range p.Steps {
		at[s.Range] = s.From
	}
	return at
}

// isBefore compares the positions of a plan whose effect is known: they are LSNs.
func isBefore(position, other string) bool {
	a, _ := cosmos.ContinuationLSN(position)
	b, _ := cosmos.ContinuationLSN(other)
	return a < b
}

// movedSince returns an error if leases are no longer as a plan says. A position that
// moves forward is no reason: its range is being worked on. It must not have gone back,
// and a step must not skip changes that it would have repeated.
func movedSince(planned, now leases.Plan) error {
	if len(planned.Steps) != len(now.Steps) {
		return fmt.Errorf("there were %d ranges, and now there are %d", len(planned.Steps), len(now.Steps))
	}
	for i, was := range planned.Steps {
		is := now.Steps[i]
		switch {
		case was.Range != is.Range:
			return fmt.Errorf("range %s has been replaced", was.Range)
		case was.Owner != is.Owner:
			return fmt.Errorf("range %s moved from owner %s to %s", was.Range, operate.OwnerName(was.Owner), operate.OwnerName(is.Owner))
		case is.Refused != "":
			return fmt.Errorf("range %s: %s", was.Range, is.Refused)
		case was.Nothing != is.Nothing:
			return fmt.Errorf("range %s is in another state than it was", was.Range)
		case was.Known && is.Known && (isBefore(is.From, was.From) || isBefore(was.From, was.To) && isBefore(is.To, is.From)):
			return fmt.Errorf("range %s is at %s, and was at %s", was.Range, is.From, was.From)
		}
	}
	return nil
}
