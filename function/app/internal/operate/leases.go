package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"halley/function/app/internal/text"
	"halley/trigger/leases"
)

// CountChanges counts the steps that change something.
func CountChanges(plans []leases.Plan) (n int) {
	for _, p := range plans {
		for _, s := range p.Steps {
			if !s.Nothing {
				n++
			}
		}
	}
	return n
}

// Effect says in words what a step of a plan does.
func Effect(s leases.Step) string {
	switch {
	case s.Refused != "":
		return "refused: " + s.Refused
	case s.Nothing:
		return "none"
	case s.Action == leases.ActionPause:
		return "stops: " + s.Reason
	case s.Action == leases.ActionResume:
		return "continues"
	case s.Action == leases.ActionRelease && s.Known:
		return "the owner finishes its calls"
	case s.Action == leases.ActionRelease:
		return "the owner's unsaved changes are delivered again"
	case s.Action == leases.ActionCreate:
		return "the lease is created"
	case !s.Known:
		return "moves by an unknown number of transactions"
	}
	var parts []string
	if s.Repeated > 0 {
		parts = append(parts, "repeats "+amount(s.Repeated, s.Exact))
	}
	if s.Skipped > 0 {
		parts = append(parts, "skips "+amount(s.Skipped, s.Exact))
	}
	if s.Reason != "" {
		parts = append(parts, s.Reason)
	}
	if len(parts) == 0 {
		return "moves over no change"
	}
	return strings.Join(parts, ", ")
}

// amount is a number of changes, or of transactions if it is not exact.
func amount(n int64, exact bool) string {
	if exact {
		return text.Count(int(n), "change")
	}
	return fmt.Sprintf("up to %d transactions", n)
}

// FunctionLeases is the control of the leases of one function.
type FunctionLeases struct {
	Function string
	*leases.Control
}

// ExportLeases writes the leases of all functions as a JSON array.
func ExportLeases(ctx context.Context, opened []FunctionLeases, out io.Writer) error {
	var all []leases.Export
	for _, f := range opened {
		e, err := f.Export(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Function, err)
		}
		all = append(all, e)
	}
	encoder := json.NewEncoder(text.SafeWriter(out))
	encoder.SetIndent("", "  ")
	return encoder.Encode(all)
}

// OwnerName is the owner of a lease in a table.
func OwnerName(owner string) string {
	if owner == "" {
		return "(free)"
	}
	return text.Cell(owner)
}
