package failovers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// source is how the monitored container is made and read.
type source struct {
	mode      cosmos.Mode
	start     trigger.Start
	isWhole   bool // each change is shown, and not only the last one of each document
	ranges    int
	retention time.Duration

	beginnings map[string]string // in all-versions mode: the position before the first write, by range
	parents    map[string]string // of the children of splits
}

// change is a write as the feed shows it. Its name is the document's id with the number of the
// version, or "deleted".
type change struct {
	name, id, key string
	lsn           int64
}

func (c change) isDelete() bool { return strings.HasSuffix(c.name, deleted) }

const deleted = ".deleted"

func (w *world) chooseFeed() {
	w.feed = source{start: trigger.FromBeginning(), ranges: 1, beginnings: map[string]string{}, parents: map[string]string{}}
	if w.chance(0.5) {
		w.feed.ranges = 2 + w.dice.IntN(2)
	}
	if !w.chance(0.4) {
		return
	}
	w.feed.mode, w.feed.retention = cosmos.ModeAllVersions, 24*time.Hour
	w.feed.start, w.feed.isWhole = trigger.FromNow(), true
	if w.chance(0.5) {
		w.feed.start, w.feed.isWhole = trigger.FromSnapshot(), false
	}
	w.options.Manners.HideCommitted = false // without the committed LSN, all versions wait for an operator
}

// beginFeed notes where all versions begin.
func (w *world) beginFeed() {
	for _, r := range w.ranges() {
		if w.feed.mode == cosmos.ModeAllVersions {
			page, err := w.container.ReadFeed(w.t.Context(), cosmos.FeedRequest{Range: r, Mode: w.feed.mode, Start: cosmos.StartNow})
			w.must(err)
			w.feed.beginnings[r.ID] = page.Continuation
		}
		w.writers["items/"+r.ID] = w.options.Regions[0]
	}
	w.writers["leases/0"] = w.options.Regions[0]
}

// ranges are those of the monitored container.
func (w *world) ranges() []cosmos.Range {
	items := w.client(w.account, "").Container("db", "items")
	ranges, err := items.Ranges(w.t.Context())
	w.must(err)
	return ranges
}

// oneRange chooses one of the monitored container's ranges, also while regions are silent.
func (w *world) oneRange() (id string) {
	containers := w.account.State().Databases[0].Containers
	items := containers[slices.IndexFunc(containers, func(c emulator.ContainerState) bool { return c.ID == "items" })]
	return items.Ranges[w.dice.IntN(len(items.Ranges))].ID
}

// split divides a range of the monitored container. Its children begin where it did.
func (w *world) split() {
	parent := w.oneRange()
	children, err := w.account.Split("db", "items", parent)
	if err != nil { // another range is splitting
		return
	}
	for _, child := range children {
		w.writers["items/"+child] = w.writers["items/"+parent]
		w.feed.beginnings[child], w.feed.parents[child] = w.feed.beginnings[parent], parent
	}
}

// kept returns the changes that the account has, in the order of the feed of each range.
func (w *world) kept() (changes []change) {
	items := w.client(w.account, "").Container("db", "items")
	for _, r := range w.ranges() {
		request := cosmos.FeedRequest{Range: r, Mode: w.feed.mode, Continuation: w.feed.beginnings[r.ID]}
		for {
			page, err := items.ReadFeed(w.t.Context(), request)
			w.must(err)
			if page.NotModified {
				break
			}
			for _, item := range page.Items {
				changes = append(changes, w.changeOf(item.Document, item.ID, item.PartitionKey, item.LSN))
			}
			request.Continuation = page.Continuation
		}
	}
	return changes
}

// changeOf returns a change of the feed; id and key are those of a delete.
func (w *world) changeOf(document json.RawMessage, id string, key json.RawMessage, lsn int64) change {
	if document == nil {
		return change{name: id + deleted, id: id, key: strings.Trim(string(key), `[]{}":key`), lsn: lsn}
	}
	var d struct {
		ID      string
		Key     string
		Version int
	}
	if err := json.Unmarshal(document, &d); err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
	}
	return change{name: fmt.Sprint(d.ID, ".", d.Version), id: d.ID, key: strings.TrimPrefix(d.Key, "k"), lsn: lsn}
}
