package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// defaultCompactedBytes bounds the documents of a compacted blob, which is made in memory.
const defaultCompactedBytes = 256 << 20

// compactedToken begins the names of compacted blobs, in place of a range. A number follows,
// so that they come after all blobs that they replace, in the order of names. A reader that
// lists names in that order, while blobs are replaced, finds the changes in the blobs before
// or in the blob after, and never in neither.
const compactedToken = "compacted-"

// Compacted counts what [Archive.Compact] has done.
type Compacted struct {
	Partitions int `json:"partitions"` // of time, in which blobs were replaced
	Replaced   int `json:"replaced"`   // blobs
	Blobs      int `json:"blobs"`      // that have their changes
}

// Compact replaces the blobs of the archive's format, in each partition of time that ended
// before a time, by few large ones, with each change once and with the columns of the options.
// It may be interrupted at any point, repeated, and run next to hosts and to itself: a blob is
// deleted only when another one has its changes. Until then these are in both, as equal rows.
//
// It is of use for partitions that get no further changes, see [ClosedBefore]; a change that
// comes later is in a blob of its own, and in the large one after the next run.
func (a *Archive) Compact(ctx context.Context, before time.Time) (total Compacted, err error) {
	for folder, err := range a.folders(ctx) {
		if err != nil {
			return total, err
		}
		end, ok := partitionEnd(strings.TrimPrefix(folder.path, a.options.Prefix))
		if !ok || end.After(before) {
			continue
		}
		done, err := a.compactFolder(ctx, folder)
		total.Replaced += done.Replaced
		total.Blobs += done.Blobs
		total.Partitions += min(done.Replaced, 1)
		if err != nil {
			return total, fmt.Errorf("compact %s: %w", folder.path, err)
		}
	}
	return total, nil
}

// folder is a partition of time with the names of its blobs, sorted.
type folder struct {
	path  string
	blobs []string
}

// folders goes through the partitions that have blobs of the archive's format.
func (a *Archive) folders(ctx context.Context) iter.Seq2[folder, error] {
	return func(yield func(folder, error) bool) {
		var current folder
		for name, err := range a.store.List(ctx, a.options.Prefix) {
			if err != nil {
				yield(folder{}, err)
				return
			}
			if !strings.HasSuffix(name, a.options.Format.extension()) || !strings.Contains(name, "/") {
				continue
			}
			if path := folderOf(name); path != current.path {
				if current.path != "" && !yield(current, nil) {
					return
				}
				current = folder{path: path}
			}
			current.blobs = append(current.blobs, name)
		}
		if current.path != "" {
			yield(current, nil)
		}
	}
}

// partitionEnd returns the end of a partition of time, from its folder.
func partitionEnd(path string) (end time.Time, ok bool) {
	if t, err := time.Parse("dt=2006-01-02/hour=15/", path); err == nil {
		return t.Add(time.Hour), true
	}
	t, err := time.Parse("dt=2006-01-02/", path)
	return t.AddDate(0, 0, 1), err == nil
}

// compactFolder replaces groups of blobs, each as large as memory allows, one after the other.
func (a *Archive) compactFolder(ctx context.Context, f folder) (done Compacted, err error) {
	next := nextGeneration(f.blobs)
	var group compaction
	for _, name := range f.blobs {
		records, err := readBlob(ctx, a.store, name)
		if err != nil {
			return done, err
		}
		if !group.hasRoom(records, a.compactedBytes) {
			if err := a.replace(ctx, f.path, &group, &next, &done); err != nil {
				return done, err
			}
			group = compaction{}
		}
		group.add(name, records)
	}
	return done, a.replace(ctx, f.path, &group, &next, &done)
}

// nextGeneration is the number that follows those of all compacted blobs.
func nextGeneration(names []string) (next int) {
	for _, name := range names {
		var generation int
		if _, err := fmt.Sscanf(name[len(folderOf(name)):], compactedToken+"%d_", &generation); err == nil {
			next = max(next, generation+1)
		}
	}
	return next
}

// replace creates the blob of a group and then deletes those of the group.
func (a *Archive) replace(ctx context.Context, path string, group *compaction, next *int, done *Compacted) error {
	if len(group.names) < 2 {
		return nil
	}
	slices.SortFunc(group.records, func(x, y Record) int {
		return cmp.Or(x.Compare(y), cmp.Compare(x.Change, y.Change))
	})
	whole := part{folder: path, rangeID: fmt.Sprintf("%s%08d", compactedToken, *next), records: group.records}
	if err := a.create(ctx, whole.blobName(a.options.Format.extension()), whole.records); err != nil {
		return err
	}
	*next++
	done.Blobs++
	for _, replaced := range group.names {
		if err := a.store.Delete(ctx, replaced); err != nil {
			return err
		}
		done.Replaced++
	}
	return nil
}

// compaction is the changes of several blobs, each once.
type compaction struct {
	names   []string
	records []Record
	seen    map[string]bool
	bytes   int
}

func (c *compaction) hasRoom(records []Record, limit int) bool {
	return len(c.names) == 0 || c.bytes+bytesOf(records) <= limit
}

func (c *compaction) add(name string, records []Record) {
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	c.names = append(c.names, name)
	for _, r := range records {
		if !c.seen[r.Change] {
			c.seen[r.Change] = true
			c.records = append(c.records, r)
			c.bytes += len(r.Document)
		}
	}
}

func bytesOf(records []Record) (n int) {
	for _, r := range records {
		n += len(r.Document)
	}
	return n
}

// ClosedBefore returns the time before which all changes are archived and checkpointed, as the
// leases of a function tell, less a margin for changes that are delivered late.
func ClosedBefore(ctx context.Context, leases *cosmos.Container, source trigger.FeedSource, margin time.Duration) (time.Time, error) {
	lags, err := trigger.EstimateLag(ctx, leases, source)
	if err != nil {
		return time.Time{}, err
	}
	if len(lags) == 0 {
		return time.Time{}, errors.New("no host has run the function yet: there is nothing to compact")
	}
	behind := 0.0
	for _, lag := range lags {
		if !lag.Known {
			return time.Time{}, fmt.Errorf("the lag of range %s is unknown (%s): let its hosts run, or repair what status says", lag.Range, lag.Problem)
		}
		behind = max(behind, lag.Seconds)
	}
	return time.Now().Add(-time.Duration(behind * float64(time.Second))).Add(-margin), nil
}
