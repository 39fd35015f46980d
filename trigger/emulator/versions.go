package emulator

import (
	"encoding/json"
	"slices"
	"sort"
	"time"
)

// maxRetention is how long the service keeps versions at most: as long as the
// longest tier of its continuous backups,
// https://learn.microsoft.com/azure/cosmos-db/change-feed-modes.
const maxRetention = 30 * 24 * time.Hour

// version is the effect of one operation on one item, as the log of all versions
// keeps it.
type version struct {
	previous, current *document // nil if there was or is none
	lsn               int64
	time              int64 // seconds since 1970: when it was written, deleted or expired
	expired           bool
	seq               uint64 // of the versions of a container
}

// versionLog is a range's log of all versions. Versions up to trimmed are missing:
// they are older than the retention, or the container kept none when they were
// written. The lock of the container guards the log.
type versionLog struct {
	kept    []*version // in order of LSN
	trimmed int64
}

// after is the log beyond an LSN.
func (l *versionLog) after(lsn int64) []*version {
	return l.kept[sort.Search(len(l.kept), func(i int) bool { return l.kept[i].lsn > lsn }):]
}

// trim removes and returns the versions older than a time. All versions of one
// transaction have one time, so they are removed together.
func (l *versionLog) trim(oldestKept int64) []*version {
	n := 0
	for n < len(l.kept) && l.kept[n].time < oldestKept {
		n++
	}
	old := slices.Clone(l.kept[:n])
	if n > 0 {
		l.trimmed = old[n-1].lsn
		clear(l.kept[:n])
		l.kept = l.kept[n:]
	}
	return old
}

// part is the log of a range that takes over some of the effective partition keys.
func (l *versionLog) part(takes func(key string) bool) versionLog {
	part := versionLog{trimmed: l.trimmed}
	for _, v := range l.kept {
		if takes(v.item().epk()) {
			part.kept = append(part.kept, v)
		}
	}
	return part
}

// item returns the item that v is a version of.
func (v *version) item() *item {
	if v.current != nil {
		return v.current.item
	}
	return v.previous.item
}

// note adds a version to the transaction, if its container keeps them.
func (t *transaction) note(previous, current *document) {
	if t.container.logging {
		t.versions = append(t.versions, &version{previous: previous, current: current, time: t.now.Unix(), expired: t.expired})
	}
}

// log adds the transaction's versions to the log of its range. They share the
// range's LSN, even if the transaction itself has superseded them.
func (t *transaction) log() {
	for _, v := range t.versions {
		v.lsn = t.partition.lsn
		if v.current != nil {
			v.current.lsn = v.lsn
		}
		v.seq = t.container.logged
		t.container.logged++
	}
	t.partition.versions.kept = append(t.partition.versions.kept, t.versions...)
}

// parseRetention reads a changeFeedPolicy; 0 if there is none. Clients also send 0
// if they want the latest versions only (ChangeFeedPolicy of azure-cosmos-dotnet-v3
// and azure-sdk-for-java).
func parseRetention(raw json.RawMessage) (time.Duration, error) {
	var policy struct {
		Minutes int64 `json:"retentionDuration"`
	}
	if absent(raw) {
		return 0, nil
	}
	const limit = int64(maxRetention / time.Minute)
	if err := json.Unmarshal(raw, &policy); err != nil || policy.Minutes < 0 || policy.Minutes > limit {
		return 0, badRequest("changeFeedPolicy must be {\"retentionDuration\": minutes} with 1 to %d minutes, or 0 for none, not %s.", limit, raw)
	}
	return time.Duration(policy.Minutes) * time.Minute, nil
}

// previousImages are the operations whose versions have the image before them
// (CosmosChangeFeedPreviousImageRetentionMode of azure-sdk-for-java).
type previousImages int

const (
	previousOfReplaces previousImages = 1 << iota
	previousOfDeletes                 // and of expiries
)

// has reports whether the feed shows the image before v.
func (p previousImages) has(v *version) bool {
	if v.current == nil {
		return p&previousOfDeletes != 0
	}
	return p&previousOfReplaces != 0
}

// parsePreviousImages reads a previousImageRetentionPolicy; 0 if there is none.
func parsePreviousImages(raw json.RawMessage) (previousImages, error) {
	var policy struct {
		SupportedFeatures struct {
			AllVersionsAndDeletes struct{ Mode previousImages }
		}
	}
	const both = previousOfReplaces | previousOfDeletes
	if absent(raw) {
		return 0, nil
	}
	mode := &policy.SupportedFeatures.AllVersionsAndDeletes.Mode
	if err := json.Unmarshal(raw, &policy); err != nil || *mode < 0 || *mode > both {
		return 0, badRequest("previousImageRetentionPolicy must be {\"supportedFeatures\":{\"allVersionsAndDeletes\":{\"mode\":n}}} with 0 for no images, 1 for those of replaces, 2 for those of deletes or 3 for both, not %s.", shortened(string(raw), maxMessage/8))
	}
	return *mode, nil
}

// retain sets the retention of the container. If a log begins now, it does not
// reach back to earlier versions.
func (o *container) retain(retention time.Duration) {
	was := o.logging
	o.retention = retention
	o.logging = retention > 0 && !o.merged()
	for _, p := range o.Partitions {
		if o.logging != was {
			p.versions = versionLog{trimmed: p.lsn}
		}
	}
}

// merged reports whether ranges of the container were ever merged.
func (o *container) merged() bool {
	return slices.ContainsFunc(o.Partitions, func(p *partition) bool { return p.Merged })
}

// trim removes versions from the logs if they are older than the retention.
func (o *container) trim(now time.Time) {
	if !o.logging {
		return
	}
	for _, p := range o.Partitions {
		if old := p.versions.trim(now.Add(-o.retention).Unix()); len(old) > 0 {
			o.removeVersions(p, old)
		}
	}
}
