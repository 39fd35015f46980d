package verify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"halley/trigger/cosmos"
)

// containerFacts are those of the account, containers and ranges.
func containerFacts() []fact {
	return []fact{
		{
			name: "account: consistency", relies: "reading what was written, and one owner of a lease", expected: "Session or stronger, and one write region",
			meaning: "reads may be older than writes, and with several write regions two hosts could own one lease",
			probe:   probeAccount,
		}, {
			name: "ranges: incremental read", relies: "noticing splits without reading all ranges", expected: "the same ranges again, with 304 or whole",
			meaning: "splits would be noticed late or not at all", grave: true,
			cost: price{fixed: costRead}, probe: probeRanges,
		}, {
			name: "ranges: unknown range", relies: "noticing that a range was split or merged", expected: "410/1002",
			meaning: "a split would look like a failure of the service",
			cost:    price{fixed: costRead}, probe: probeUnknownRange,
		}, {
			name: "absent container", relies: "telling a missing container from a missing document", expected: "404 for its documents and for itself",
			meaning: "a dropped container would not be noticed",
			cost:    price{fixed: 3 * costRead}, probe: probeAbsentContainer,
		}, {
			name: "recreated container", relies: "never reading a new container at a position of the old one", expected: "400/1024 or 410/1000 for the old resource id",
			meaning: "changes of a container that was created again would be lost", grave: true, needs: needWrites | needCreate,
			cost: price{fixed: 2*costRead + 4*costManage}, probe: probeRecreated,
		}, {
			name: "throttling", relies: "waiting as long as the service asks", expected: "429 with x-ms-retry-after-ms",
			meaning: "a throttled account would be asked too often", needs: needWrites | needThrottle,
			cost: price{fixed: throttleCost}, probe: probeThrottling,
		}, {
			name: "split", relies: "one continuation for both halves of a split", expected: "children name their parent, keep its LSNs, and continue at its position",
			meaning: "a split would lose or repeat changes", grave: true, needs: needWrites | needCreate | needSplit,
			cost: price{fixed: splitCost}, probe: probeSplit,
		},
	}
}

func probeAccount(ctx context.Context, s *session) (string, error) {
	a, err := s.client.Account(ctx)
	if err != nil {
		return "", err
	}
	seen := fmt.Sprintf("%s, %d write and %d read regions", a.Consistency, len(a.WriteRegions), len(a.ReadRegions))
	weak := a.Consistency == "Eventual" || a.Consistency == "ConsistentPrefix"
	if weak || a.MultipleWriteRegions {
		return "", differs("%s, several regions accept writes: %t", seen, a.MultipleWriteRegions)
	}
	return seen, nil
}

func probeRanges(ctx context.Context, s *session) (string, error) {
	current, err := s.items.Ranges(ctx)
	if err != nil {
		return "", err
	}
	if got, want := rangeIDs(current), rangeIDs(s.ranges); got != want {
		s.items.Forget() // do not believe it in later facts
		return "", differs("ranges %s, and %s before", got, want)
	}
	if answer := s.meter.last(); answer.status == http.StatusOK {
		return "200 with all ranges", nil
	}
	return "304", nil
}

func rangeIDs(ranges []cosmos.Range) string {
	list := make([]string, 0, len(ranges))
	for _, r := range ranges {
		list = append(list, r.ID)
	}
	return strings.Join(list, ", ")
}

func probeUnknownRange(ctx context.Context, s *session) (string, error) {
	_, err := s.items.ReadFeed(ctx, cosmos.FeedRequest{Range: cosmos.Range{ID: "987654", Max: "FF"}, Start: cosmos.StartNow})
	if status, substatus := cosmos.Status(err); err == nil || status == http.StatusGone && substatus != 1002 {
		return "", differs("%s", statusText(s.meter.last().status, substatus))
	}
	return "410/1002", wantStatus("the read of an unknown range", err, http.StatusGone)
}

func probeAbsentContainer(ctx context.Context, s *session) (string, error) {
	absent := s.client.Container(s.items.Database(), s.run+"-absent")
	_, err := absent.Read(ctx, "x", cosmos.NewPartitionKey("x"))
	if err := wantStatus("the read of a document", err, http.StatusNotFound); err != nil {
		return "", err
	}
	seen := statusText(cosmos.Status(err))
	_, err = absent.Properties(ctx)
	return seen + " for a document", wantStatus("the read of the container", err, http.StatusNotFound)
}

func probeRecreated(ctx context.Context, s *session) (string, error) {
	made, err := s.scratch.createContainer(ctx, "-again", "/"+s.key, 0)
	if err != nil {
		return "", err
	}
	oldProperties, err := made.Properties(ctx)
	if err != nil {
		return "", err
	}
	if err := s.scratch.deleteContainer(ctx, made.Name()); err != nil {
		return "", err
	}
	if made, err = s.scratch.createContainer(ctx, "-again", "/"+s.key, 0); err != nil {
		return "", err
	}
	newProperties, err := made.Properties(ctx)
	if err != nil {
		return "", err
	}
	if newProperties.ResourceID == oldProperties.ResourceID {
		return "", differs("both containers have the resource id %s", newProperties.ResourceID)
	}
	ranges, err := made.Ranges(ctx)
	if err != nil {
		return "", err
	}
	_, err = made.ReadFeed(ctx, cosmos.FeedRequest{Range: ranges[0], Continuation: position(1), ResourceID: oldProperties.ResourceID})
	status, substatus := cosmos.Status(err)
	if gone := status == http.StatusGone && substatus == 1000; status == http.StatusBadRequest && substatus == 1024 || gone {
		return statusText(status, substatus), s.scratch.deleteContainer(ctx, made.Name())
	}
	return "", wantStatus("the read at a position of the old container", err)
}

// Of the throttling: how many requests at a time write how many bytes, what all of them
// may cost, and after which charge no further one is sent.
const (
	throttleWriters = 16
	throttleBytes   = 4 << 10
	throttleCost    = 2500
	throttleEnough  = 1800
)

// probeThrottling writes one document again and again until the service refuses.
func probeThrottling(ctx context.Context, s *session) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	id := s.run + "-throttle"
	doc := s.named(id, s.run)
	doc["filler"] = strings.Repeat("x", throttleBytes)
	if _, err := s.items.Create(ctx, s.pk(), doc); err != nil {
		return "", err
	}
	refusals := make(chan error, throttleWriters)
	enough := s.meter.charged() + throttleEnough
	var writers sync.WaitGroup
	for range throttleWriters {
		writers.Go(func() {
			for s.meter.charged() < enough {
				_, err := s.items.Replace(cosmos.WithoutThrottleRetries(ctx), id, s.pk(), doc, "")
				if err != nil {
					refusals <- err
					cancel()
					return
				}
			}
		})
	}
	writers.Wait()
	close(refusals)
	for err := range refusals {
		var answer *cosmos.Error
		switch throttled, delay := cosmos.IsThrottled(err); {
		case throttled && delay > 0:
			return fmt.Sprintf("%s, wait %v", statusText(cosmos.Status(err)), delay), nil
		case throttled:
			return "", differs("%s without a time to wait", statusText(cosmos.Status(err)))
		case errors.As(err, &answer) || !errors.Is(err, context.Canceled):
			return "", err
		}
	}
	return "", unverified("%d RU were not throttled", throttleEnough)
}

// Of a split: the throughput with which a container with one range needs two, and how
// long the service may take.
const (
	splitCost       = 70
	splitThroughput = 11_000
	splitTime       = 2 * time.Hour
)

// probeSplit raises the throughput of a container of its own until its range splits.
func probeSplit(ctx context.Context, s *session) (string, error) {
	made, err := s.scratch.createContainer(ctx, "-split", "/"+s.key, 400)
	if err != nil {
		return "", err
	}
	parents, err := made.Ranges(ctx)
	if err != nil {
		return "", err
	}
	if len(parents) != 1 {
		return "", unverified("a new container has %d ranges", len(parents))
	}
	lsns := map[string]int64{} // of documents before the split
	for i := range 3 {
		key := fmt.Sprintf("%s-%d", s.run, i)
		if _, err := made.Create(ctx, cosmos.NewPartitionKey(key), s.named(key, key)); err != nil {
			return "", err
		}
		lsns[key] = s.meter.last().number("Lsn")
	}
	parentPage, err := made.ReadFeed(ctx, cosmos.FeedRequest{Range: parents[0]})
	if err != nil {
		return "", err
	}
	end := parentPage.Continuation
	parentPage.Release()
	properties, err := made.Properties(ctx)
	if err != nil {
		return "", err
	}
	if err := s.client.SetThroughput(ctx, properties.ResourceID, splitThroughput); err != nil {
		return "", err
	}
	children, err := splitRanges(ctx, made, parents[0])
	if err != nil {
		return "", err
	}
	seen, err := compareChildren(ctx, made, children, lsns, end)
	if err != nil {
		return "", err
	}
	return seen, s.scratch.deleteContainer(ctx, made.Name())
}

// splitRanges waits until a range has children.
func splitRanges(ctx context.Context, in *cosmos.Container, parent cosmos.Range) ([]cosmos.Range, error) {
	for began := time.Now(); time.Since(began) < splitTime; {
		ranges, err := in.Ranges(ctx)
		if err != nil {
			return nil, err
		}
		if len(ranges) > 1 {
			for _, r := range ranges {
				if !slices.Contains(r.Parents, parent.ID) {
					return nil, differs("range %s does not name its parent %s", r.ID, parent.ID)
				}
			}
			return ranges, nil
		}
		if err := wait(ctx, probeTime); err != nil {
			return nil, err
		}
	}
	return nil, unverified("no split within %v", splitTime)
}

// compareChildren reads the children from the beginning and at the end of their parent.
func compareChildren(ctx context.Context, in *cosmos.Container, children []cosmos.Range, lsns map[string]int64, end string) (string, error) {
	seen, served := "children keep the LSNs", 0
	for _, child := range children {
		all, err := in.ReadFeed(ctx, cosmos.FeedRequest{Range: child})
		if err != nil {
			return "", err
		}
		for _, i := range all.Items {
			id := strings.Trim(string(cosmos.Property(i.Document, "id")), `"`)
			switch old, known := lsns[id]; {
			case !known || i.LSN < old:
				return "", differs("document %s has LSN %d, and %d before the split", number(id), i.LSN, old)
			case i.LSN > old:
				seen = "children raise the LSNs"
			}
			served++
		}
		all.Release()
		further, err := in.ReadFeed(ctx, cosmos.FeedRequest{Range: child, Continuation: end})
		if err != nil {
			return "", err
		}
		repeated := len(further.Items)
		further.Release()
		if repeated > 0 {
			seen = "children repeat changes at the position of their parent"
		}
	}
	if served != len(lsns) {
		return "", differs("the children served %d of %d documents", served, len(lsns))
	}
	return seen, nil
}
