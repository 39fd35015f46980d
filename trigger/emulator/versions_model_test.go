package emulator

import (
	"cmp"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// event is one version that a container must have logged.
type event struct {
	epk  string
	text string // "operation key/id before→after at second"
	time int64
}

// modelItem is an item as the model has it.
type modelItem struct {
	key, id string
	n       int
	ends    int64 // 0 = never
	written int   // order of writes
}

// versionsModel is what a container with all versions should hold and have
// logged, kept as plainly as can be.
type versionsModel struct {
	t       *testing.T
	random  *rand.Rand
	c       *client
	account *Account
	options *Options
	items   map[string]*modelItem
	events  []event
	writes  int
	readers []*modelReader
	lost    int // readers that came too late
}

// modelReader follows one range; next is the first event that it has not read.
type modelReader struct {
	min, max, token string
	next            int
}

func (m *versionsModel) log(operation string, i *modelItem, oldImage, newImage any, seconds int64) {
	m.events = append(m.events, event{
		hashV2.Hash(keyOf(m.t, i.key)), fmt.Sprint(operation, " ", i.key, "/", i.id, " ", oldImage, "→", newImage, " at ", seconds), seconds,
	})
}

// pass lets time go by, and items end.
func (m *versionsModel) pass(d time.Duration) {
	time.Sleep(d)
	now := time.Now().Unix()
	var ended []*modelItem
	for _, i := range m.items {
		if i.ends != 0 && i.ends <= now {
			ended = append(ended, i)
		}
	}
	slices.SortFunc(ended, func(a, b *modelItem) int {
		return cmp.Or(cmp.Compare(a.ends, b.ends), cmp.Compare(a.written, b.written))
	})
	for _, i := range ended {
		delete(m.items, i.key+"/"+i.id)
		m.log("expire", i, i.n, nil, i.ends)
	}
}

// put notes a write and returns the document to send.
func (m *versionsModel) put(key, id string, n int) string {
	i, ok := m.items[key+"/"+id]
	operation, oldImage := "replace", any(nil)
	if ok {
		oldImage = i.n
	} else {
		operation, i = "create", &modelItem{key: key, id: id}
		m.items[key+"/"+id] = i
	}
	m.writes++
	i.n, i.written, i.ends = n, m.writes, 0
	m.log(operation, i, oldImage, n, time.Now().Unix())
	ttl := m.random.Intn(200)
	if ttl == 0 || m.random.Intn(3) > 0 {
		return numbered(id, key, n, "")
	}
	i.ends = time.Now().Unix() + int64(ttl)
	return numbered(id, key, n, fmt.Sprint(`,"ttl":`, ttl))
}

func (m *versionsModel) remove(key, id string) {
	i := m.items[key+"/"+id]
	delete(m.items, key+"/"+id)
	m.log("delete", i, i.n, nil, time.Now().Unix())
}

// step does one random thing.
func (m *versionsModel) step(n int) {
	key, id := fmt.Sprint("key", m.random.Intn(8)), fmt.Sprint("id", m.random.Intn(3))
	_, exists := m.items[key+"/"+id]
	switch choice := m.random.Intn(100); {
	case choice < 45:
		want := map[bool]string{true: "200", false: "201"}[exists]
		m.c.expect(want, "POST", items, m.put(key, id, n), with(pk(key), "x-ms-documentdb-is-upsert", "true")...)
	case choice < 50:
		m.c.expect("412", "POST", items, numbered(id, key, n, ""), with(pk(key), "x-ms-documentdb-is-upsert", "true", "If-Match", m.stale(key, id))...)
	case choice < 65 && exists:
		m.remove(key, id)
		m.c.expect("204", "DELETE", items+"/"+id, "", pk(key)...)
	case choice < 75:
		m.batch(key, n)
	case choice < 80:
		m.c.send("GET", items+"/"+id, "", pk(key)...)
	case choice < 85:
		m.split()
	case choice < 88 && m.options.Data != "":
		m.c, m.account = reopen(m.t, m.account, m.options)
	}
}

// stale makes sure that there is an item, and names an etag that it never had.
func (m *versionsModel) stale(key, id string) string {
	if m.items[key+"/"+id] == nil {
		m.c.expect("201", "POST", items, m.put(key, id, -1), pk(key)...)
	}
	return `"stale"`
}

// batch writes and deletes in one transaction, or fails to.
func (m *versionsModel) batch(key string, n int) {
	if m.random.Intn(4) == 0 {
		m.c.expect("207", "POST", items, fmt.Sprintf(`[{"operationType":"Upsert","resourceBody":{"id":"id0","pk":%q}},{"operationType":"Read","id":"none"}]`, key),
			with(pk(key), "x-ms-cosmos-is-batch-request", "true")...)
		return
	}
	var operations []string
	for range 1 + m.random.Intn(4) {
		id := fmt.Sprint("id", m.random.Intn(3))
		if m.items[key+"/"+id] != nil && m.random.Intn(2) == 0 {
			m.remove(key, id)
			operations = append(operations, fmt.Sprintf(`{"operationType":"Delete","id":%q}`, id))
			continue
		}
		operations = append(operations, fmt.Sprintf(`{"operationType":"Upsert","resourceBody":%s}`, m.put(key, id, n)))
	}
	m.c.expect("200", "POST", items, "["+strings.Join(operations, ",")+"]", with(pk(key), "x-ms-cosmos-is-batch-request", "true")...)
}

// split divides a range, and its reader with it.
func (m *versionsModel) split() {
	i := m.random.Intn(len(m.readers))
	if len(m.readers) > 6 {
		return
	}
	r := m.readers[i]
	if _, err := m.account.Split("db", "c", m.c.ranges()[i].ID); err != nil {
		m.t.Fatal(err)
	}
	children := m.c.ranges()[i : i+2]
	low, high := *r, *r
	low.max, high.min = children[0].MaxExclusive, children[1].MinInclusive
	m.readers = slices.Replace(m.readers, i, i+1, &low, &high)
}

// read compares what a reader gets with the events that are new to it.
func (m *versionsModel) read(i int) {
	r, id, oldest := m.readers[i], m.c.ranges()[i].ID, time.Now().Add(-10*time.Minute).Unix()
	var want []string
	missed, mine := false, false
	for _, e := range m.events[r.next:] {
		missed = missed || e.time < oldest
		if r.min <= e.epk && e.epk < r.max {
			mine = mine || e.time < oldest
			want = append(want, e.text)
		}
	}
	r.next = len(m.events)
	var got []string
	for {
		page := m.c.send("GET", items, "", with(versionsHeader, "If-None-Match", r.token, "x-ms-max-item-count", "4", rangeID(id)[0], id)...)
		switch {
		case page.status == 400 && missed && got == nil:
			m.lost++
			r.token = m.c.end(id)
			return
		case page.status == 200 && mine, page.status != 200 && page.status != 304:
			m.t.Fatalf("range %s after %s: %d %s, although events are gone: %v", id, r.token, page.status, page.body, mine)
		}
		r.token = page.header.Get("etag")
		for _, s := range page.seen(m.t) {
			got = append(got, describe(s))
		}
		if page.status == 304 {
			break
		}
	}
	if !slices.Equal(got, want) {
		m.t.Fatalf("range %s has\n%s\nwant\n%s", id, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// describe is a change in the words of the model.
func describe(s seen) string {
	image, operation := s.Current, s.Metadata.OperationType
	if len(image) == 0 {
		image = s.Previous
	}
	if s.Metadata.TimeToLiveExpired {
		operation = "expire"
	}
	return fmt.Sprint(operation, " ", image["pk"], "/", image["id"], " ", s.Previous["n"], "→", s.Current["n"], " at ", s.Metadata.CRTS)
}

// TestVersionsModel holds the log of all versions against the model through
// random operations, expiries, splits, restarts and retention.
func TestVersionsModel(t *testing.T) {
	lost := 0
	for seed := range int64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			options := &Options{}
			if seed%2 == 0 {
				options.Data = t.TempDir()
			}
			synctest.Test(t, func(t *testing.T) {
				c, a := newVersions(t, options)
				m := &versionsModel{
					t: t, random: rand.New(rand.NewSource(seed)), c: c, account: a, options: options,
					items: map[string]*modelItem{}, readers: []*modelReader{{"", "FF", c.end("0"), 0}},
				}
				for n := range 250 {
					m.pass(time.Duration(m.random.Int63n(int64(30 * time.Second))))
					m.step(n)
					if m.random.Intn(5) == 0 {
						m.read(m.random.Intn(len(m.readers)))
					}
				}
				m.pass(0)
				for i := range m.readers {
					m.read(i)
				}
				lost += m.lost
			})
		})
	}
	if lost == 0 {
		t.Error("no reader was ever too late: the retention is not tested")
	}
}
