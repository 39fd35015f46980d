package verify

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Write prints the table of facts, their meaning if they differ, and one sentence.
func (r *Report) Write(out io.Writer) error {
	if len(r.Rows) == 0 && r.LeftOver == "" { // the error of Run says why
		return nil
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FACT\tVERDICT\tEXPECTED\tSEEN")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", row.Fact, row.Verdict, row.Expected, row.Seen)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, row := range r.Rows {
		if row.Verdict == VerdictDiffers {
			fmt.Fprintf(out, "\n%s differs. Halley relies on it for %s. What it means for you: %s.\n", row.Fact, row.Relies, row.Meaning)
		}
	}
	_, err := fmt.Fprintf(out, "\nCharged %.0f RU; %.0f were said.\n%s\n", r.Charged, r.Estimated, r.Verdict)
	return err
}

// WriteJSON prints the report for machines.
func (r *Report) WriteJSON(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
