package operatorpage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
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
	shown := page.Source{Look: p.look, DeadLetters: o.deadLetters, FindDeadLetter: o.FindDeadLetter, ExportDeadLetters: o.exportDeadLetters, ExportLeases: o.exportLeases}
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

// boundLetters are the dead letters of a plan: those that were there when it was made.
type boundLetters struct {
	*Operator
	function string
	ids      []string
	notes    []string // about dead letters that cannot be read
}

// bind finds the dead letters of a request.
func (o *Operator) bind(ctx context.Context, r page.Request) (*boundLetters, error) {
	b := &boundLetters{Operator: o, function: r.Select.Function}
	if b.function == "" {
		return nil, errors.New("name the function of the dead letters")
	}
	if _, err := o.function(b.function); err != nil {
		return nil, err
	}
	var failed error
	pick, _ := storedSelection(r.Select)
	pick.DeadOnly = true // its function delivers a postponed change, unless the viewer names it
	if r.Select.Letter != "" {
		pick.IDs = []string{r.Select.Letter}
	}
	o.find(ctx, &pick, r.Select, func(l operate.StoredLetter, err error) bool {
		if err == nil {
			b.ids = append(b.ids, l.ID)
		}
		failed = errors.Join(failed, err)
		return true
	})
	if len(b.ids) == 0 {
		return nil, errors.Join(fmt.Errorf("no dead letter is selected by %s", r.Select), failed)
	}
	if failed != nil {
		b.notes = []string{"not all dead letters can be read: " + text.OfError(failed)}
	}
	return b, nil
}

func (b *boundLetters) letters(ctx context.Context) iter.Seq2[operate.StoredLetter, error] {
	return b.found(ctx, &operate.Selection{IDs: b.ids}, page.Selection{Function: b.function})
}

// moved returns an error if a dead letter of the plan has left the store.
func (b *boundLetters) moved(ctx context.Context) error {
	n, err := operate.CountSelected(b.letters(ctx))
	if err == nil && n != len(b.ids) {
		err = fmt.Errorf("%d of the %d dead letters have left the store since", len(b.ids)-n, len(b.ids))
	}
	return err
}

func (o *Operator) planReplay(ctx context.Context, r page.Request) (page.Plan, error) {
	b, err := o.bind(ctx, r)
	if err != nil {
		return page.Plan{}, err
	}
	return page.Plan{
		Effects: []string{
			fmt.Sprintf("The handler of %s is called with %s, selected by %s: those of one key one by one, the oldest first.", b.function, text.Count(len(b.ids), "dead letter"), r.Select),
			"Each one that it handles is removed. If one fails, it and the later ones of its key stay.",
		},
		Warnings: append(b.notes, "the handler may get changes that are older than changes it has handled, unless the function blocks keys"),
		Count:    len(b.ids), Moved: b.moved, Do: b.replay,
	}, nil
}

// replayParallel is the number of handler calls of a replay from the page.
const replayParallel = 8

func (b *boundLetters) replay(ctx context.Context) (string, error) {
	store, fn, err := b.store(b.function)
	if err != nil {
		return "", err
	}
	done, err := (&operate.Selection{IDs: b.ids}).Replay(ctx, store, fn, operate.ReplayBounds{Parallel: replayParallel})
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s handled", text.Count(done.Handled, "dead letter"))
	if done.Failed+done.Waiting == 0 {
		return text, nil
	}
	return "", fmt.Errorf("%s, %d failed again, %d wait behind these; the first error: %s", text, done.Failed, done.Waiting, done.Failures[0].Error)
}

func (o *Operator) planDiscard(ctx context.Context, r page.Request) (page.Plan, error) {
	b, err := o.bind(ctx, r)
	if err != nil {
		return page.Plan{}, err
	}
	plan := page.Plan{
		Effects:  []string{fmt.Sprintf("%s of %s, selected by %s, are deleted. Their changes are lost.", text.Count(len(b.ids), "dead letter"), b.function, r.Select)},
		Warnings: b.notes, Count: len(b.ids), Confirm: strconv.Itoa(len(b.ids)), Moved: b.moved,
		Do: func(ctx context.Context) (string, error) {
			deleted, err := operate.DeleteDeadLetters(ctx, b.letters(ctx))
			if err != nil {
				return "", fmt.Errorf("%s deleted: %w", text.Count(deleted, "dead letter"), err)
			}
			return text.Count(deleted, "dead letter") + " deleted", nil
		},
	}
	if !o.settings.App.PageHideDocuments {
		plan.Export = r.Select.Address("api/v1/letters.jsonl")
	}
	return plan, nil
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
