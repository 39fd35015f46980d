package verify

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"halley/trigger/cosmos"
)

// versionFacts are those of the feed of all versions and deletes.
func versionFacts() []fact {
	return []fact{
		{
			name: "all versions: order", relies: "all-versions functions", expected: "create, replace and delete of a document, each once and in order, with the LSN of its write",
			meaning: "handlers would miss versions or deletes", grave: true, needs: needWrites | needVersions,
			cost: price{fixed: costCreate + costReplace + costDelete + 3*costRead}, probe: probeVersions,
		}, {
			name: "all versions: delete", relies: "the id and the key of a deleted document", expected: "the delete names the document and its partition key",
			meaning: "handlers could not tell what was deleted", needs: needWrites | needVersions,
			cost: price{fixed: 3 * costRead}, probe: probeDeleteKey,
		}, {
			name: "all versions: position of an inner change", relies: "checkpoints of all-versions functions", expected: `If-None-Match "LSN" serves the changes after that LSN, and no others`,
			meaning: "a checkpoint within a page would lose or repeat changes", grave: true, needs: needWrites | needVersions,
			cost: price{fixed: 3 * costRead}, probe: probeInnerVersion,
		}, {
			name: "all versions: etag of a 304", relies: "positions of idle ranges", expected: `"LSN", not below that of the request`,
			meaning: "an idle range would go back and repeat changes", grave: true, needs: needVersions,
			cost: price{fixed: 2 * costRead}, probe: probeIdleVersions,
		},
	}
}

// threeVersions writes and deletes a document, if no fact has done so before.
func (s *session) threeVersions(ctx context.Context) (versionsSeen, error) {
	if s.versions.lsns != nil {
		return s.versions, nil
	}
	start, err := s.now(ctx, cosmos.ModeAllVersions)
	if err != nil {
		return versionsSeen{}, err
	}
	created, err := s.create(ctx)
	if err != nil {
		return versionsSeen{}, err
	}
	resp, err := s.items.Replace(ctx, created.id, s.pk(), s.named(created.id, s.run), "")
	if err != nil {
		return versionsSeen{}, err
	}
	replaced := s.writtenAs(created.id, resp)
	if _, err := s.items.Delete(ctx, created.id, s.pk(), ""); err != nil {
		return versionsSeen{}, err
	}
	s.versions = versionsSeen{start, created.id, []int64{created.lsn, replaced.lsn, s.meter.last().number("Lsn")}}
	return s.versions, nil
}

// wantOperations returns a difference unless the feed has served these operations of a
// document, with the LSNs of the last writes to it.
func (v versionsSeen) wantOperations(items []item, operations ...string) error {
	var seen []string
	for _, i := range items {
		seen = append(seen, string(i.operation))
	}
	if !slices.Equal(seen, operations) {
		return differs("served %s", strings.Join(seen, ", "))
	}
	lsns := v.lsns[len(v.lsns)-len(operations):]
	for i, one := range items {
		if one.id != v.id || one.lsn != lsns[i] {
			return differs("%s of document %s with LSN %d, the write had %d", seen[i], number(one.id), one.lsn, lsns[i])
		}
	}
	return nil
}

func probeVersions(ctx context.Context, s *session) (string, error) {
	v, err := s.threeVersions(ctx)
	if err != nil {
		return "", err
	}
	_, items, err := s.rest(ctx, reading{mode: cosmos.ModeAllVersions, from: v.start})
	if err == nil {
		err = v.wantOperations(items, "create", "replace", "delete")
	}
	return "create, replace, delete", err
}

// probeInnerVersion reads at the LSN of the first of three versions.
func probeInnerVersion(ctx context.Context, s *session) (string, error) {
	v, err := s.threeVersions(ctx)
	if err != nil {
		return "", err
	}
	_, items, err := s.rest(ctx, reading{mode: cosmos.ModeAllVersions, from: position(v.lsns[0])})
	if err == nil {
		err = v.wantOperations(items, "replace", "delete")
	}
	return "the changes after it", err
}

func probeDeleteKey(ctx context.Context, s *session) (string, error) {
	v, err := s.threeVersions(ctx)
	if err != nil {
		return "", err
	}
	_, items, err := s.rest(ctx, reading{mode: cosmos.ModeAllVersions, from: position(v.lsns[1])})
	if err != nil {
		return "", err
	}
	if len(items) != 1 || items[0].id != v.id {
		return "", differs("served %s, deleted document %s", ids(items), number(v.id))
	}
	var byPath map[string]string
	var values []string
	_ = json.Unmarshal([]byte(items[0].key), &byPath) // one of the two forms
	_ = json.Unmarshal([]byte(items[0].key), &values)
	if byPath[s.key] != s.run && (len(values) != 1 || values[0] != s.run) {
		return "", differs("the delete has no partition key")
	}
	return "id and partition key", nil
}

func probeIdleVersions(ctx context.Context, s *session) (string, error) {
	etag, err := s.now(ctx, cosmos.ModeAllVersions)
	if err != nil {
		return "", err
	}
	first, err := etagLSN(etag)
	if err != nil {
		return "", err
	}
	p, err := s.read(ctx, reading{mode: cosmos.ModeAllVersions, from: etag})
	if err != nil {
		return "", err
	}
	second, err := etagLSN(p.etag)
	if err == nil && second < first {
		err = differs("the etag went back from %d to %d", first, second)
	}
	return "not below", err
}
