package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Report is the outcome of a run.
type Report struct {
	Rows      []Row   `json:"facts"`
	Estimated float64 `json:"estimatedCharge"` // request units, said beforehand
	Charged   float64 `json:"charge"`
	Verdict   string  `json:"verdict"` // one sentence
	Code      int     `json:"exitCode"`
	LeftOver  string  `json:"leftOver,omitempty"` // what to delete by hand

	exchanges []exchange
	names     names
}

// Exit codes of a run.
const (
	CodeVerified = 0
	CodeFailed   = 1 // could not run
	CodeRemarks  = 2
	CodeUnusable = 3
)

// Verdict is the outcome of one fact.
type Verdict string

// The verdicts.
const (
	VerdictSame       Verdict = "same"
	VerdictDiffers    Verdict = "differs"
	VerdictUnverified Verdict = "not verified"
)

// Row is one line of the report.
type Row struct {
	Fact     string  `json:"fact"`
	Verdict  Verdict `json:"verdict"`
	Expected string  `json:"expected"`
	Seen     string  `json:"seen,omitempty"`   // or the reason why it is not verified
	Relies   string  `json:"relies"`           // what of Halley relies on the fact
	Meaning  string  `json:"means,omitempty"`  // for the user; only if the fact differs
	Grave    bool    `json:"grave,omitempty"`  // Halley must not be used with this difference
	Charge   float64 `json:"charge,omitempty"` // request units
}

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

// judge writes the sentence and the exit code.
func (r *Report) judge(err error) {
	var remarks, grave []string
	unseen := 0
	for _, row := range r.Rows {
		switch {
		case row.Verdict == VerdictUnverified:
			unseen++
		case row.Verdict == VerdictDiffers && row.Grave:
			grave = append(grave, row.Fact)
		case row.Verdict == VerdictDiffers:
			remarks = append(remarks, row.Fact)
		}
	}
	same := len(r.Rows) - unseen - len(grave) - len(remarks)
	switch {
	case len(grave) > 0:
		r.Code, r.Verdict = CodeUnusable, fmt.Sprintf("Do not use Halley on this account: %s.", strings.Join(append(grave, remarks...), "; "))
		if err != nil {
			r.Verdict += fmt.Sprintf(" The run has not come to its end: %v.", reason(err))
		}
	case err != nil:
		r.Code, r.Verdict = CodeFailed, fmt.Sprintf("Could not run to the end, after %d facts that are the same: %v.", same, reason(err))
	case len(remarks) > 0:
		r.Code, r.Verdict = CodeRemarks, fmt.Sprintf("Verified with remarks: %s; %d facts are the same, %d not verified.", strings.Join(remarks, "; "), same, unseen)
	default:
		r.Code, r.Verdict = CodeVerified, fmt.Sprintf("Verified: %d facts are the same, %d not verified.", same, unseen)
	}
	if r.LeftOver != "" {
		r.Verdict += " The cleanup failed: " + r.LeftOver + "."
	}
}

// reason shortens the error that has ended a run.
func reason(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "it was interrupted"
	case errors.Is(err, context.DeadlineExceeded):
		return "the time was over"
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimRight(line, ".")
}

// WriteRecord writes the exchanges of the run, a line each.
func (r *Report) WriteRecord(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	for _, x := range r.exchanges {
		if err := e.Encode(r.names.recorded(x, r.exchanges[0].sent)); err != nil {
			return err
		}
	}
	return nil
}
