package migrate

import (
	"context"
	"fmt"
	"io"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// Report says whether the clients can be switched from the source to the target.
type Report struct {
	Source       string        `json:"source"` // database/container
	Target       string        `json:"target"`
	TargetKey    []string      `json:"targetKey"` // paths of its partition key
	Ranges       int           `json:"ranges"`    // leases of the migration
	Behind       int64         `json:"behind"`    // transactions that are not copied, if BehindKnown
	BehindKnown  bool          `json:"behindKnown"`
	DeadLettered int           `json:"deadLettered"` // changes that were given up since the leases were created
	Problems     []string      `json:"problems"`     // of ranges
	Verification *Verification `json:"verification"`
	Ready        bool          `json:"ready"` // nothing is left to copy, and both are equal
}

// Report measures how far the migration is behind, and compares both containers. source is
// that of the function that runs the migration, leases its lease container.
func (m *Migration) Report(ctx context.Context, source trigger.FeedSource, leases *cosmos.Container, opts *VerifyOptions) (*Report, error) {
	properties, err := m.target.Properties(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the target container: %w", err)
	}
	r := &Report{
		Source: placeOf(source.Container), Target: placeOf(m.target),
		TargetKey: properties.PartitionKey.Paths, Problems: []string{},
	}
	if r.Verification, err = m.Verify(ctx, source.Container, opts); err != nil {
		return nil, err
	}
	lags, err := trigger.EstimateLag(ctx, leases, source)
	if err != nil {
		return nil, err
	}
	r.addLags(lags)
	r.Ready = len(lags) > 0 && r.BehindKnown && r.Behind == 0 && r.Verification.Equal()
	return r, nil
}

func placeOf(c *cosmos.Container) string { return c.Database() + "/" + c.Name() }

func (r *Report) addLags(lags []trigger.Lag) {
	r.Ranges, r.BehindKnown = len(lags), true
	for _, lag := range lags {
		r.Behind += lag.Changes
		r.BehindKnown = r.BehindKnown && lag.Known
		r.DeadLettered += lag.DeadLettered
		if lag.Problem != "" {
			r.Problems = append(r.Problems, "range "+lag.Range+": "+lag.Problem)
		}
	}
	if len(lags) == 0 {
		r.Problems = append(r.Problems, "the function has no leases: no host has ever run it")
	}
}

// Write prints the report. now is the time that ages refer to.
func (r *Report) Write(out io.Writer, now time.Time) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-13s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("from", "%s", r.Source)
	line("to", "%s, partition key %v", r.Target, r.TargetKey)
	if r.BehindKnown {
		line("behind", "%d transactions in %d ranges", r.Behind, r.Ranges)
	} else {
		line("behind", "not known")
	}
	v := r.Verification
	line("source", "%d documents, %d of them left out", v.Source, v.LeftOut)
	line("target", "%d documents, and %d tombstones, which expire", v.Target, v.Tombstones)
	writeEqual(line, v)
	if !v.LastWrite.IsZero() {
		line("last write", "%s, %v ago", v.LastWrite.Format(time.RFC3339), now.Sub(v.LastWrite).Round(time.Second))
	}
	line("dead letters", "%d since the leases were created", r.DeadLettered)
	for _, problem := range r.Problems {
		line("problem", "%s", problem)
	}
	r.writeAdvice(out)
}

func writeEqual(line func(name, format string, args ...any), v *Verification) {
	switch {
	case v.Equal():
		line("equal", "yes")
	case v.More:
		line("equal", "no, more than %d documents differ", len(v.Differences))
	default:
		line("equal", "no, %d differences", len(v.Differences))
	}
	for _, d := range v.Differences[:min(len(v.Differences), 20)] {
		line("", "%v", d)
	}
	if omitted := len(v.Differences) - 20; omitted > 0 {
		line("", "and %d more: see them with --json", omitted)
	}
}

func (r *Report) writeAdvice(out io.Writer) {
	if !r.Ready {
		fmt.Fprint(out, "\nNot ready. Let the migration catch up, correct the differences, and repeat this report.\n")
		return
	}
	fmt.Fprintf(out, `
Ready. To switch:
1. Stop the writes to %s, and repeat this report: it must be ready again.
2. Let readers and writers use %s, with its partition key %v.
3. Stop the migration. Keep the source until you trust the target.
`, r.Source, r.Target, r.TargetKey)
}
