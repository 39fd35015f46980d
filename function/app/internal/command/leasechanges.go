package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"halley/function/app/internal/operate"
	"halley/function/app/internal/text"
	"halley/trigger/leases"
)

// planLeases plans a change of the leases of one function.
type planLeases func(ctx context.Context, function operate.FunctionLeases) (leases.Plan, error)

// addChangeFlags adds the flags that all commands that change leases have.
func (p *leaseSelection) addChangeFlags(c *cobra.Command) {
	c.Flags().BoolVar(&p.yes, "yes", false, "carry out the plan")
	c.Flags().BoolVar(&p.dryRun, "dry-run", false, "print the plan, and nothing else; on a terminal this is the default")
	c.MarkFlagsMutuallyExclusive("yes", "dry-run")
	c.Flags().DurationVar(&p.wait, "wait", 2*time.Minute, "how long to wait for owners")
	c.Flags().StringVar(&p.backup, "backup", "", "file for the copy of the leases; by default halley-leases-TIME.json in this directory")
}

func (p *leaseSelection) addRangeFlag(c *cobra.Command) {
	c.Flags().StringArrayVar(&p.ranges, "range", nil, "this range only, by its lease token; may be repeated")
}

func (p *leaseSelection) addForceFlag(c *cobra.Command) {
	c.Flags().BoolVar(&p.force, "force", false, "take leases from owners without waiting for their handler calls")
}

func (p *leaseSelection) seekCommand() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "seek --to beginning|now|snapshot|TIME|TOKEN",
		Short: "Move the positions of ranges",
		Long: `Seek has ranges continue at the beginning, at now, after a time such as
2026-01-31T12:00:00Z, or at a token, which is a continuation of one range. A function
that starts from a snapshot begins another one at snapshot, as after a gap longer than
the retention of all versions. Changes before the new position that were not handled
are skipped; changes after it are delivered again. The plan says how many changes lie
between; of more than 1,000 it counts the transactions in the log, also those of other
containers that share the throughput of the database.

Hosts may run. A Halley owner finishes its handler calls, saves its position and
gives the lease back before the position is moved; --force does not wait for it.
From a .NET owner the lease is taken, held until the owner has noticed, and released.
The failure history of a range is removed; dead letters stay where they are.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			target, err := leases.ParseSeek(to)
			if err != nil {
				return fmt.Errorf("--to %w", err)
			}
			return p.change(cmd, func(ctx context.Context, function operate.FunctionLeases) (leases.Plan, error) {
				return function.PlanSeek(ctx, target, p.ranges...)
			})
		},
	}
	c.Flags().StringVar(&to, "to", "", "beginning, now, snapshot, an RFC 3339 time or a token")
	_ = c.MarkFlagRequired("to") // it is defined above
	p.addRangeFlag(c)
	p.addForceFlag(c)
	p.addChangeFlags(c)
	return c
}

func (p *leaseSelection) pauseCommand() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "pause --reason TEXT",
		Short: "Stop the work on ranges until they are resumed",
		Long: `Pause stops ranges. Their owners notice at their next write, at the latest after a
renewal interval. They finish running handler calls, save their positions and give
the leases back, so no change is delivered again. No Halley host acquires a paused
lease, and status, log and events say why.

.NET hosts do not know pauses: while one owns a lease of the function, pause is
refused.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.change(cmd, func(ctx context.Context, function operate.FunctionLeases) (leases.Plan, error) {
				return function.PlanPause(ctx, reason, p.ranges...)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for status, log and leases list")
	_ = c.MarkFlagRequired("reason") // it is defined above
	p.addRangeFlag(c)
	p.addChangeFlags(c)
	return c
}

func (p *leaseSelection) resumeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "resume",
		Short: "Continue paused ranges",
		Long:  `Resume ends pauses. Hosts acquire the leases within an acquire interval.`,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.change(cmd, func(ctx context.Context, function operate.FunctionLeases) (leases.Plan, error) {
				return function.PlanResume(ctx, p.ranges...)
			})
		},
	}
	p.addRangeFlag(c)
	p.addChangeFlags(c)
	return c
}

func (p *leaseSelection) releaseCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "release",
		Short: "Have owners give leases back",
		Long: `Release requests leases from their owners, which finish their handler calls and
give them back. Any host may acquire them then, also the same one. With --force the
leases are taken, for example from a host that is known to be dead, without waiting
for their expiration.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.change(cmd, func(ctx context.Context, function operate.FunctionLeases) (leases.Plan, error) {
				return function.PlanRelease(ctx, p.ranges...)
			})
		},
	}
	p.addRangeFlag(c)
	p.addForceFlag(c)
	p.addChangeFlags(c)
	return c
}

func (p *leaseSelection) importCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Restore positions from a copy of the leases",
		Long: `Import moves ranges to the positions in a file of leases export, or in the copy that
another command has written. Leases that are missing are created. Leases that were
split off since get the position of the lease that had their keys; if ranges were
merged, their leases are refused.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			exports, err := readExports(args[0])
			if err != nil {
				return err
			}
			return p.change(cmd, func(ctx context.Context, function operate.FunctionLeases) (leases.Plan, error) {
				export, found := exports[function.Function]
				if !found {
					return leases.Plan{}, fmt.Errorf("%s has no leases of function %s: choose another with --function", args[0], function.Function)
				}
				return function.PlanImport(ctx, export)
			})
		},
	}
	p.addForceFlag(c)
	p.addChangeFlags(c)
	return c
}

// leaseChange is the outcome of a command that changes leases.
type leaseChange struct {
	Plans   []leases.Plan `json:"plans"`
	Backup  string        `json:"backup,omitempty"` // file, if anything was done
	Applied bool          `json:"applied"`
}

// outcome says what was done, "" if an error says it.
func (r *leaseChange) outcome(err error) string {
	switch {
	case r.Applied:
		return "done; the leases as they were are in " + r.Backup
	case r.Backup != "":
		return "the leases as they were are in " + r.Backup
	case err != nil:
		return ""
	case operate.CountChanges(r.Plans) == 0:
		return "nothing to do"
	}
	return "nothing was done: repeat the command with --yes to carry out the plan"
}

// change plans, prints the plan and, with --yes, carries it out.
func (p *leaseSelection) change(cmd *cobra.Command, plan planLeases) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	p.dryRun = p.dryRun || text.IsTerminal(out)
	opened, err := p.open(ctx)
	if err != nil {
		return err
	}
	var result leaseChange
	for _, f := range opened {
		made, err := plan(ctx, f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Function, err)
		}
		result.Plans = append(result.Plans, made)
	}
	if !p.json {
		if err := printPlans(out, result.Plans); err != nil {
			return err
		}
	}
	err = p.carryOut(ctx, opened, &result)
	if p.json {
		return errors.Join(err, json.NewEncoder(text.SafeWriter(out)).Encode(result))
	}
	if says := result.outcome(err); says != "" {
		fmt.Fprintln(out, says)
	}
	return err
}

// carryOut applies the plans with --yes, after it has written the backup. Without --yes and
// --dry-run it is an error that there is something to do.
func (p *leaseSelection) carryOut(ctx context.Context, opened []operate.FunctionLeases, result *leaseChange) error {
	var refused []error
	for _, plan := range result.Plans {
		if err := plan.Refused(); err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", plan.Function, err))
		}
	}
	if err := errors.Join(refused...); err != nil {
		return fmt.Errorf("nothing was done: %w", err)
	}
	if operate.CountChanges(result.Plans) == 0 || p.dryRun && !p.yes {
		return nil
	}
	if !p.yes {
		return errors.New("nothing was done: carry out the plan with --yes")
	}
	path := cmp.Or(p.backup, "halley-leases-"+time.Now().UTC().Format("20060102T150405.000Z")+".json")
	if err := writeBackup(ctx, opened, path); err != nil {
		return fmt.Errorf("nothing was done: write backup: %w", err)
	}
	result.Backup = path
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	var failed []error
	for i, f := range opened {
		if err := f.Apply(ctx, result.Plans[i]); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", f.Function, err))
		}
	}
	result.Applied = len(failed) == 0
	return errors.Join(failed...)
}

// writeBackup writes a file that does not exist yet.
func writeBackup(ctx context.Context, opened []operate.FunctionLeases, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(operate.ExportLeases(ctx, opened, f), f.Close())
}

func printPlans(out io.Writer, plans []leases.Plan) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FUNCTION\tRANGE\tOWNER\tACTION\tFROM\tTO\tEFFECT")
	for _, p := range plans {
		for _, s := range p.Steps {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Function, text.Cell(s.Range), operate.OwnerName(s.Owner), s.Action, text.Cell(s.From), text.Cell(s.To), text.Line(operate.Effect(s)))
		}
	}
	return t.Flush()
}

// readExports reads a file of leases export, by function.
func readExports(path string) (map[string]leases.Export, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, fmt.Errorf("%s is not a file of leases export: %w", path, err)
	}
	exports := map[string]leases.Export{}
	for _, part := range parts {
		e, err := leases.ReadExport(part)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		exports[e.Function] = e
	}
	return exports, nil
}
