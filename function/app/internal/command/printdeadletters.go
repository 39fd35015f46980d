package command

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"text/tabwriter"
	"time"

	"halley/function/app/internal/operate"
	"halley/function/app/internal/text"
	"halley/trigger"
	"halley/trigger/redact"
)

// print prints dead letters as a table, or as lines of JSON.
func (p *letterFlags) print(out io.Writer, found iter.Seq2[operate.StoredLetter, error]) error {
	if p.json {
		return operate.PrintLines(out, found)
	}
	return printTable(out, found)
}

// printTable prints a line of columns for each dead letter, with the same errors
// as PrintLines.
func printTable(out io.Writer, found iter.Seq2[operate.StoredLetter, error]) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tGIVEN UP\tFUNCTION\tRANGE\tLSN\tKEY\tDOCUMENT\tATTEMPTS\tERROR")
	var failed error
	for l, err := range found {
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", text.Line(l.ID), l.Time.UTC().Format(time.RFC3339), l.Store.Function, text.Cell(l.Range), l.LSN,
			text.Cell(l.Key), text.Cell(l.DocumentID), attempts(l.DeadLetter), text.Cell(redact.Text(l.Error)))
	}
	return errors.Join(t.Flush(), failed)
}

// attempts shows how often the change of a dead letter was tried, or when it is due.
func attempts(d trigger.DeadLetter) string {
	switch {
	case d.IsPostponed():
		return "postponed until " + d.Due.UTC().Format(time.RFC3339)
	case d.Blocked:
		return "blocked"
	}
	return strconv.Itoa(d.Attempts)
}

// printDeadLetter prints all fields of a dead letter as text.
func printDeadLetter(out io.Writer, l operate.StoredLetter) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"id", l.ID}, {"function", l.Store.Function}, {"given up", l.Time.UTC().Format(time.RFC3339Nano)}, {"attempts", attempts(l.DeadLetter)},
		{"range", l.Range}, {"epoch", strconv.FormatInt(l.Epoch, 10)}, {"lsn", strconv.FormatInt(l.LSN, 10)},
		{"key", l.Key}, {"operation", string(l.Operation)}, {"document id", l.DocumentID}, {"written", l.Written.UTC().Format(time.RFC3339)},
	} {
		fmt.Fprintf(t, "%s:\t%s\n", row[0], text.Cell(row[1]))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, part := range []struct{ name, text string }{
		{"document", string(l.Document)}, {"previous", string(l.Previous)}, {"error", redact.Text(l.Error)}, {"stack", redact.Text(l.Stack)},
	} {
		if part.text == "" {
			continue
		}
		if _, err := fmt.Fprintf(out, "\n%s:\n%s\n", part.name, text.Printable(part.text)); err != nil {
			return err
		}
	}
	return nil
}
