package emulator

import (
	"fmt"
	"sync"
	"testing"
)

func TestVersionsOverSplits(t *testing.T) {
	c, a := newVersions(t, nil)
	token := c.end("0")
	for _, k := range keys(12) {
		c.create("id-"+k, k)
		c.expect("204", "DELETE", items+"/id-"+k, "", pk(k)...)
	}
	middle := c.end("0")
	children, err := a.Split("db", "c", "0")
	if err != nil {
		t.Fatal(err)
	}
	grandchildren, err := a.Split("db", "c", children[1])
	if err != nil {
		t.Fatal(err)
	}
	c.versions("410/1002", token, rangeID("0")...)
	for _, k := range keys(12) {
		c.create("new-"+k, k)
	}
	fullCounts, laterCount := map[string]int{}, 0
	for _, id := range append(grandchildren, children[0]) {
		last := int64(0)
		for _, s := range c.versions("200", token, rangeID(id)...).seen(t) {
			fullCounts[s.String()]++
			if s.Metadata.LSN <= last {
				t.Errorf("range %s: LSN %d after %d", id, s.Metadata.LSN, last)
			}
			last = s.Metadata.LSN
		}
		laterCount += len(c.versions("200", middle, rangeID(id)...).seen(t))
	}
	if len(fullCounts) != 36 || laterCount != 12 {
		t.Errorf("%d versions since the beginning, %d since the split: %v", len(fullCounts), laterCount, fullCounts)
	}
	for s, n := range fullCounts {
		if n != 1 {
			t.Errorf("%s came %d times", s, n)
		}
	}
}

// follower reads all versions of a part of the keys by its own position.
type follower struct{ min, max, token string }

// follow reads the changes that are new to the followers, in parts if ranges have
// split.
func follow(c *client, followers []follower, take func(seen)) []follower {
	var next []follower
	for _, f := range followers {
		for _, r := range c.ranges() {
			if r.MaxExclusive <= f.min || f.max <= r.MinInclusive {
				continue
			}
			part := follower{max(f.min, r.MinInclusive), min(f.max, r.MaxExclusive), f.token}
			for hasNext := true; hasNext; {
				got := c.send("GET", items, "", with(versionsHeader, "If-None-Match", part.token, "x-ms-max-item-count", "3",
					"x-ms-documentdb-partitionkeyrangeid", r.ID, "x-ms-start-epk", part.min, "x-ms-end-epk", part.max)...)
				if got.status == 410 {
					break // it has split again; the next round sees it
				}
				if got.status != 200 && got.status != 304 {
					c.t.Fatalf("range %s after %s: %d %s", r.ID, part.token, got.status, got.body)
				}
				for _, s := range got.seen(c.t) {
					take(s)
				}
				part.token, hasNext = got.header.Get("etag"), got.status == 200
			}
			next = append(next, part)
		}
	}
	return next
}

func TestVersionsWhileRangesSplitUnderWriters(t *testing.T) {
	c, a := newVersions(t, nil)
	followers := []follower{{"", "FF", c.end("0")}}
	var mu sync.Mutex
	var writers sync.WaitGroup
	written := map[string]int{}
	for w := range 4 {
		writers.Go(func() {
			for i := range 120 {
				key := fmt.Sprint("key", (w*31+i)%23)
				id := fmt.Sprint(w, "-", i%7)
				got := c.send("POST", items, numbered(id, key, i, ""), with(pk(key), "x-ms-documentdb-is-upsert", "true")...)
				operation := map[int]string{200: "replace", 201: "create"}[got.status]
				if i%5 == 4 && c.send("DELETE", items+"/"+id, "", pk(key)...).status == 204 {
					mu.Lock()
					written[key+"/"+id+" delete"]++
					mu.Unlock()
				}
				mu.Lock()
				written[key+"/"+id+" "+operation]++
				mu.Unlock()
			}
		})
	}
	read := map[string]int{}
	take := func(s seen) {
		image := s.Current
		if len(image) == 0 {
			image = s.Previous
		}
		read[fmt.Sprint(image["pk"], "/", image["id"], " ", s.Metadata.OperationType)]++
	}
	for i := range 6 {
		ranges := c.ranges()
		if _, err := a.Split("db", "c", ranges[i%len(ranges)].ID); err != nil {
			t.Fatal(err)
		}
		followers = follow(c, followers, take)
	}
	writers.Wait()
	follow(c, followers, take)
	for name, n := range written {
		if read[name] != n {
			t.Errorf("%s: written %d times, read %d times", name, n, read[name])
		}
	}
	if len(read) != len(written) {
		t.Errorf("%d kinds of change read, %d written", len(read), len(written))
	}
}
