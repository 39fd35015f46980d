package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// settlePoll is the time between two comparisons of the documents that differ.
const settlePoll = time.Second

// settle compares the suspects until they are equal, or until the time is over, and
// puts those that still differ into the result.
func (v *verifier) settle(ctx context.Context) error {
	ids := slices.Sorted(maps.Keys(v.suspects))
	v.result.Differences = []Difference{}
	if len(ids) == 0 || v.result.More {
		return v.recheck(ctx, ids[:min(len(ids), v.options.MaxDifferences)])
	}
	for end := time.Now().Add(v.options.Settle); ; {
		if err := v.recheck(ctx, ids); err != nil || len(v.result.Differences) == 0 || !time.Now().Before(end) {
			return err
		}
		select {
		case <-time.After(min(settlePoll, time.Until(end))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// recheck reads the documents with some ids from both sides and compares them.
func (v *verifier) recheck(ctx context.Context, ids []string) error {
	v.result.Differences = v.result.Differences[:0]
	for begin := 0; begin < len(ids); begin += idsPerQuery {
		part := ids[begin:min(begin+idsPerQuery, len(ids))]
		found, err := v.sourceDocuments(ctx, part, true)
		if err != nil {
			return err
		}
		documents := make([]json.RawMessage, len(found))
		for i, document := range found {
			if documents[i], err = json.Marshal(document); err != nil {
				return err
			}
		}
		differences, _, err := v.compare(ctx, part, documents, true)
		if err != nil {
			return err
		}
		v.result.Differences = append(v.result.Differences, differences...)
	}
	slices.SortStableFunc(v.result.Differences, func(a, b Difference) int { return cmp.Compare(a.ID, b.ID) })
	return nil
}

// compare compares documents of the source with their copies. If complete is set, they
// are all documents with the ids, and copies of other documents are differences.
func (v *verifier) compare(ctx context.Context, ids []string, documents []json.RawMessage, complete bool) (differences []Difference, leftOut int64, err error) {
	copies, err := v.m.findCopies(ctx, ids, true)
	if err != nil {
		return nil, 0, err
	}
	compared := map[*targetCopy]bool{}
	for _, document := range documents {
		d, omitted, err := v.compareOne(document, copies, compared)
		if err != nil {
			return nil, 0, err
		}
		if omitted {
			leftOut++
		}
		differences = append(differences, d...)
	}
	if !complete {
		return differences, leftOut, nil
	}
	for _, id := range ids {
		for _, c := range copies[id] {
			switch {
			case compared[c] || c.guard != nil && c.guard.Deleted:
			case c.guard == nil:
				differences = append(differences, Difference{ID: id, TargetKey: json.RawMessage(c.key.text), Text: "was not written by the migration"})
			default:
				differences = append(differences, Difference{ID: id, SourceKey: json.RawMessage(c.guard.Key), TargetKey: json.RawMessage(c.key.text), Text: "exists in the target only; latest-version mode shows no deletes"})
			}
		}
	}
	return differences, leftOut, nil
}

// compareOne compares one document of the source with its copies, and marks these.
func (v *verifier) compareOne(document json.RawMessage, copies map[string][]*targetCopy, compared map[*targetCopy]bool) (differences []Difference, leftOut bool, err error) {
	var fields properties
	if err := json.Unmarshal(document, &fields); err != nil {
		return nil, false, fmt.Errorf("document of the source: %w", err)
	}
	sourceKey, err := v.sourcePaths.keyOf(fields)
	if err != nil {
		return nil, false, err
	}
	id := textOf(fields["id"])
	differ := func(key *targetKey, text string) {
		d := Difference{ID: id, SourceKey: json.RawMessage(sourceKey.text), Text: text}
		if key != nil {
			d.TargetKey = json.RawMessage(key.text)
		}
		differences = append(differences, d)
	}
	want, err := v.m.imageOf(id, document, v.targetPaths)
	if err != nil {
		differ(nil, err.Error())
		return differences, false, nil
	}
	found := false
	for _, c := range copies[id] {
		if !c.own(sourceKey.text) || c.guard.Deleted {
			continue
		}
		compared[c] = true
		if want.content == nil || c.key.text != want.key.text {
			differ(&c.key, "a copy that should not exist: the document has moved, or is left out")
			continue
		}
		found = true
		content, err := v.m.contentOf(c.document)
		if err != nil {
			return nil, false, err
		}
		name, err := differingProperty(want.content, content)
		if err != nil {
			return nil, false, err
		}
		if name != "" {
			differ(&c.key, fmt.Sprintf("property %q differs", name))
		}
	}
	if want.content != nil && !found {
		differ(&want.key, "is missing in the target")
	}
	return differences, want.content == nil, nil
}
