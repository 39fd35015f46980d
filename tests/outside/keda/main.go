// Keda compares two views of one processor: the lag that KEDA's azure-cosmosdb
// scaler computes from Halley's leases, and the lag of halley status.
package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	f, err := newFeed(ctx, os.Getenv("OUTSIDE_ENDPOINT"), os.Getenv("OUTSIDE_KEY"), 4)
	if err == nil {
		err = f.run(ctx, days())
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// day is one step in the life of a feed, with a check of both views after it.
type day struct {
	name   string
	happen func(context.Context, *feed) error
	wrong  func(keda, halley view) string // "" if both views are right
}

const everything = math.MaxInt64

// merged are the tokens of leases after a merge. They name key ranges, here the two
// halves of the second of four ranges.
var merged = []string{
	"0FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF-17FFFFFFFFFFFFFFFFFFFFFFFFFFFFFE",
	"17FFFFFFFFFFFFFFFFFFFFFFFFFFFFFE-1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFE",
}

// days returns the steps in their order; each begins when the last one has ended.
func days() []day {
	return []day{
		{"no leases", func(ctx context.Context, f *feed) error { return f.write(ctx, 120) }, both(0)},
		{"no checkpoint", func(ctx context.Context, f *feed) error { return f.drain(ctx, 0) }, both(120)},
		{"drained in part", func(ctx context.Context, f *feed) error { return f.drain(ctx, 8) }, same},
		{"idle", func(ctx context.Context, f *feed) error { return f.drain(ctx, everything) }, both(0)},
		{"one behind", func(ctx context.Context, f *feed) error { return f.write(ctx, 1) }, both(1)},
		{"behind, with deletes", func(ctx context.Context, f *feed) error { return f.rewrite(ctx, 60) }, same},
		{"a range has split", func(ctx context.Context, f *feed) error { return f.split(ctx, "1") }, without("1")},
		{"the split is handled", func(ctx context.Context, f *feed) error { return f.drain(ctx, everything) }, both(0)},
		{"behind after the split", func(ctx context.Context, f *feed) error { return f.write(ctx, 90) }, both(90)},
		{"drained in part after the split", func(ctx context.Context, f *feed) error { return f.drain(ctx, 6) }, same},
		{"ranges have merged", func(ctx context.Context, f *feed) error { return f.merge(ctx, "4", "5") }, without("4", "5")},
		{"the merge is handled", func(ctx context.Context, f *feed) error { return f.drain(ctx, everything) }, without(merged...)},
		{"behind after the merge", func(ctx context.Context, f *feed) error { return f.write(ctx, 90) }, without(merged...)},
	}
}

// run prints both views after each day.
func (f *feed) run(ctx context.Context, days []day) error {
	missed := 0
	for _, d := range days {
		if err := d.happen(ctx, f); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		keda, err := kedaSees(ctx, f)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		halley, err := halleySees(ctx, f)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		verdict := "equal"
		if wrong := d.wrong(keda, halley); wrong != "" {
			verdict = "wrong, " + wrong
			missed++
		} else if keda.Lag != halley.Lag {
			verdict = "KEDA leaves leases out, as it does"
		}
		fmt.Printf("%-32s KEDA %3d, Halley %3d: %s\n", d.name, keda.Lag, halley.Lag, verdict)
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d are wrong", missed, len(days))
	}
	return nil
}

func same(keda, halley view) string {
	switch {
	case keda.Lag != halley.Lag:
		return "they differ"
	case keda.Active != halley.Active:
		return "KEDA would run a replica for nothing, or none for something"
	case halley.Lag == 0:
		return "there should be a lag"
	}
	return ""
}

func both(lag int64) func(keda, halley view) string {
	return func(keda, halley view) string {
		if keda.Lag != lag || halley.Lag != lag || keda.Active != (lag > 0) {
			return fmt.Sprintf("both should say %d", lag)
		}
		return ""
	}
}

// without returns a check that KEDA ignores the leases with these tokens. If a
// lease names a range that no longer exists, KEDA does not count its lag, but
// reports that a replica is needed. Halley counts it.
func without(gone ...string) func(keda, halley view) string {
	return func(keda, halley view) string {
		lag := halley.Lag
		for _, token := range gone {
			behind, ok := halley.Leases[token]
			if !ok {
				return fmt.Sprintf("Halley has no lease %s, but %v", token, halley.Leases)
			}
			lag -= behind
		}
		if keda.Lag != max(lag, 1) || !keda.Active {
			return fmt.Sprintf("KEDA should say %d and be active", max(lag, 1))
		}
		return ""
	}
}
