package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"halley/function/app/internal/operate"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
	"halley/trigger/leases"
)

func leasesCommand(source settings.Source) *cobra.Command {
	pick := leaseSelection{source: source}
	c := &cobra.Command{
		Use:   "leases",
		Short: "List, verify, pause, resume, move, release, copy and create leases",
		Long: `Leases works on the leases of the enabled functions, while hosts run or not.
Settings are those of the hosts; the command check prints them.

Seek, pause, resume, release and import print a plan and do nothing until they are
repeated with --yes. They write a copy of the leases into a file before they change
any, and leases import restores it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := c.PersistentFlags()
	f.StringVar(&pick.function, "function", "", "leases of this function only")
	f.BoolVar(&pick.json, "json", false, "print JSON")
	c.AddCommand(
		pick.listCommand(), pick.verifyCommand(), pick.initCommand(), pick.exportCommand(),
		pick.seekCommand(), pick.pauseCommand(), pick.resumeCommand(), pick.releaseCommand(), pick.importCommand(),
	)
	return c
}

func (p *leaseSelection) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the leases, with owners, positions and pauses",
		Long: `List prints each lease as its document is. It reads no feed; the command status
shows how far each range is behind.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opened, err := p.open(cmd.Context())
			if err != nil {
				return err
			}
			all := []leases.Info{}
			for _, f := range opened {
				list, err := f.List(cmd.Context())
				if err != nil {
					return fmt.Errorf("%s: %w", f.Function, err)
				}
				all = append(all, list...)
			}
			if p.json {
				return json.NewEncoder(text.SafeWriter(cmd.OutOrStdout())).Encode(all)
			}
			return printLeases(cmd.OutOrStdout(), all, time.Now())
		},
	}
}

func printLeases(out io.Writer, all []leases.Info, now time.Time) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FUNCTION\tRANGE\tOWNER\tKIND\tEPOCH\tWRITTEN\tCONTINUATION\tPAUSED")
	for _, l := range all {
		paused := ""
		if l.Paused {
			paused = operate.Ago(l.PausedSince, now) + ": " + text.Cell(l.Reason)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", l.Function, text.Cell(l.Range), operate.OwnerName(l.Owner), l.OwnerKind, l.Epoch, operate.Ago(l.Written, now), text.Cell(l.Continuation), paused)
	}
	return t.Flush()
}

func (p *leaseSelection) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Look for gaps, overlaps, damaged documents and silent owners",
		Long: `Verify reads all leases of the enabled functions and prints what is wrong with
them, and how to mend it: no leases, keys without a lease or with two, documents
that are not leases, duplicates, leases of another mode, owners that do not renew,
and pauses that an owner ignores. It writes nothing. The exit code is 1 if it finds
something.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.verify(cmd.Context(), cmd.OutOrStdout()) },
	}
}

func (p *leaseSelection) verify(ctx context.Context, out io.Writer) error {
	opened, err := p.open(ctx)
	if err != nil {
		return err
	}
	type verified struct {
		Function string           `json:"function"`
		Findings []leases.Finding `json:"findings"`
	}
	var all []verified
	count := 0
	for _, f := range opened {
		findings, err := f.Verify(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Function, err)
		}
		count += len(findings)
		all = append(all, verified{f.Function, findings})
	}
	if p.json {
		if err := json.NewEncoder(text.SafeWriter(out)).Encode(all); err != nil {
			return err
		}
	} else {
		for _, v := range all {
			for _, finding := range v.Findings {
				fmt.Fprintf(out, "%s: %s\n", v.Function, text.Line(finding.String()))
			}
			if len(v.Findings) == 0 {
				fmt.Fprintf(out, "%s: the leases cover every key once, and no document is damaged\n", v.Function)
			}
		}
	}
	if count > 0 {
		if !p.json {
			fmt.Fprintln(out, "leases init creates leases, and leases import restores them from an export")
		}
		return fmt.Errorf("%d findings", count)
	}
	return nil
}

func (p *leaseSelection) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Create the leases, as the first host would",
		Long: `Init creates the leases of the enabled functions unless a host has created them
before. Run it once after a deployment that begins with zero replicas: a scaler
such as KEDA's measures the lag in the leases, and without them nothing wakes the
app. A function that starts from now gets the changes written after init.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opened, err := p.open(cmd.Context())
			if err != nil {
				return err
			}
			for _, f := range opened {
				n, err := f.Init(cmd.Context())
				if err != nil {
					return fmt.Errorf("%s: %w", f.Function, err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %d leases exist\n", f.Function, n)
			}
			return nil
		},
	}
}

func (p *leaseSelection) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Print a copy of the leases as JSON",
		Long: `Export prints the leases of the enabled functions, for leases import. Positions
are in it, and no secrets.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opened, err := p.open(cmd.Context())
			if err != nil {
				return err
			}
			return operate.ExportLeases(cmd.Context(), opened, cmd.OutOrStdout())
		},
	}
}
