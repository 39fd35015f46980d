package emulator

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
)

// model is what a container should hold after random operations, kept as plainly
// as can be.
type model struct {
	t       *testing.T
	random  *rand.Rand
	c       *client
	account *Account
	options *Options
	etags   map[string]string // by "key/id"
	steps   []string          // for the report of a failure
	leases  []*lease
}

// lease follows one part of the key space by its own token, as a processor does.
type lease struct{ min, max, token string }

const modelKeys, modelIDs = 12, 3

func (m *model) pick() (key, id string) {
	return fmt.Sprint("key", m.random.Intn(modelKeys)), fmt.Sprint("id", m.random.Intn(modelIDs))
}

func (m *model) note(format string, args ...any) {
	m.steps = append(m.steps, fmt.Sprintf(format, args...))
}

// want is the status of an operation that needs the item to be there or not.
func (m *model) want(name string, present, absent int) int {
	if _, ok := m.etags[name]; ok {
		return present
	}
	return absent
}

func (m *model) check(operation, name string, got answer, want int) {
	m.note("%s %s: %d", operation, name, got.status)
	if got.status != want {
		m.t.Fatalf("%s %s: %d, want %d; %s", operation, name, got.status, want, got.body)
	}
	if want == 200 || want == 201 {
		m.etags[name] = got.header.Get("etag")
	}
}

// step does one random thing.
func (m *model) step(n int) {
	key, id := m.pick()
	name, path, h := key+"/"+id, items+"/"+id, pk(key)
	body := fmt.Sprintf(`{"id":%q,"pk":%q,"step":%d}`, id, key, n)
	switch choice := m.random.Intn(100); {
	case choice < 20:
		status := m.want(name, 409, 201)
		m.check("create", name, m.c.send("POST", items, body, h...), status)
	case choice < 50:
		m.check("upsert", name, m.c.send("POST", items, body, with(h, "x-ms-documentdb-is-upsert", "true")...), m.want(name, 200, 201))
	case choice < 60:
		m.check("replace", name, m.c.send("PUT", path, body, with(h, "If-Match", m.etags[name])...), m.want(name, 200, 404))
	case choice < 65:
		m.check("stale replace", name, m.c.send("PUT", path, body, with(h, "If-Match", `"stale"`)...), m.want(name, 412, 404))
	case choice < 70:
		m.check("patch", name, m.c.send("PATCH", path, fmt.Sprintf(`[{"op":"set","path":"/step","value":%d}]`, n), h...), m.want(name, 200, 404))
	case choice < 80:
		m.delete(name, path, h)
	case choice < 85:
		m.batch(key, n)
	case choice < 96:
		m.reshape()
	case choice < 97 && m.options.Data != "":
		m.restart()
	default:
		m.follow()
	}
}

func (m *model) delete(name, path string, h []string) {
	status := m.want(name, 204, 404)
	m.check("delete", name, m.c.send("DELETE", path, "", h...), status)
	delete(m.etags, name)
}

// batch upserts all ids of a key in one transaction, or fails to.
func (m *model) batch(key string, n int) {
	var operations []string
	for i := range modelIDs {
		operations = append(operations, fmt.Sprintf(`{"operationType":"Upsert","resourceBody":{"id":"id%d","pk":%q,"step":%d}}`, i, key, n))
	}
	want := 200
	if m.random.Intn(2) == 0 {
		want = 207
		operations = append(operations, `{"operationType":"Read","id":"nothing"}`)
	}
	got := m.c.send("POST", items, "["+strings.Join(operations, ",")+"]", with(pk(key), "x-ms-cosmos-is-batch-request", "true")...)
	m.note("batch %s: %d", key, got.status)
	if got.status != want {
		m.t.Fatalf("batch: %d, want %d; %s", got.status, want, got.body)
	}
	for i := 0; i < modelIDs && want == 200; i++ {
		id := fmt.Sprint("id", i)
		m.etags[key+"/"+id] = m.c.expect("200", "GET", items+"/"+id, "", pk(key)...).header.Get("etag")
	}
}

func (m *model) reshape() {
	ranges := m.c.ranges()
	i := m.random.Intn(len(ranges))
	var err error
	if len(ranges) > 6 || len(ranges) > 1 && m.random.Intn(2) == 0 {
		i = min(i, len(ranges)-2)
		m.note("merge %s %s", ranges[i].ID, ranges[i+1].ID)
		_, err = m.account.Merge("db", "c", ranges[i+1].ID, ranges[i].ID)
	} else {
		m.note("split %s", ranges[i].ID)
		_, err = m.account.Split("db", "c", ranges[i].ID)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) restart() {
	m.note("restart")
	m.c, m.account = reopen(m.t, m.account, m.options)
}

// follow moves every lease by one page, and divides it if its part was split.
func (m *model) follow() {
	ranges := m.c.ranges()
	var next []*lease
	for _, l := range m.leases {
		for _, r := range ranges {
			if r.MinInclusive < l.max && l.min < r.MaxExclusive {
				next = append(next, &lease{max(l.min, r.MinInclusive), min(l.max, r.MaxExclusive), l.token})
			}
		}
	}
	m.leases = next
}

// read takes one page of a lease; it reports the etags seen and whether there is more.
func (m *model) read(l *lease, seen map[string]string) bool {
	for _, r := range m.c.ranges() {
		if l.min < r.MinInclusive || r.MaxExclusive < l.max {
			continue
		}
		got := m.c.send("GET", items, "", with(feedHeader, "x-ms-documentdb-partitionkeyrangeid", r.ID, "If-None-Match", l.token,
			"x-ms-start-epk", l.min, "x-ms-end-epk", l.max, "x-ms-max-item-count", "2")...)
		if got.status != 200 && got.status != 304 || got.status == 200 && lsnOf(got.header.Get("etag")) <= lsnOf(l.token) {
			m.t.Fatalf("range %s after %s: %d, etag %s; %s", r.ID, l.token, got.status, got.header.Get("etag"), got.body)
		}
		l.token = got.header.Get("etag")
		for _, d := range got.documents(m.t) {
			seen[d["pk"].(string)+"/"+d["id"].(string)] = d["_etag"].(string)
		}
		return got.status == 200
	}
	m.t.Fatalf("no range holds [%s, %s)", l.min, l.max)
	return false
}

// verify compares everything that a client can see with the model.
func (m *model) verify(seen map[string]string) {
	m.follow()
	for _, l := range m.leases {
		for m.read(l, seen) {
		}
	}
	for name, etag := range m.etags {
		if seen[name] != etag {
			m.t.Errorf("the newest version of %s never came over the feed", name)
		}
	}
	queried := ofValues(m.c.query(ask("SELECT VALUE CONCAT(c.pk, '/', c.id) FROM c"), "x-ms-max-item-count", "5"))
	slices.Sort(queried)
	if want := slices.Sorted(maps.Keys(m.etags)); !slices.Equal(queried, want) {
		m.t.Errorf("a query finds %v, want %v", queried, want)
	}
	var fed []string
	for _, r := range m.c.ranges() {
		last := 0.0
		for _, d := range m.c.send("GET", items, "", with(feedHeader, rangeID(r.ID)...)...).documents(m.t) {
			if lsn := d["_lsn"].(float64); lsn < last {
				m.t.Errorf("range %s: LSN %v after %v", r.ID, lsn, last)
			} else {
				last = lsn
			}
			fed = append(fed, d["pk"].(string)+"/"+d["id"].(string))
		}
	}
	slices.Sort(fed)
	if !slices.Equal(fed, queried) {
		m.t.Errorf("the feed from the beginning has %v, want %v", fed, queried)
	}
}

// TestModel holds the account against the model through random operations,
// splits, merges and restarts.
func TestModel(t *testing.T) {
	for seed := range int64(9) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			options := &Options{}
			if seed%3 == 0 {
				options.Data = t.TempDir()
			}
			c, a := newItems(t, int(seed%3)+1, options)
			m := &model{t: t, random: rand.New(rand.NewSource(seed)), c: c, account: a, options: options, etags: map[string]string{}, leases: []*lease{{"", "FF", ""}}}
			seen := map[string]string{}
			for n := range 250 {
				m.c.t = t
				m.step(n)
				m.follow()
				for _, l := range m.leases {
					if m.random.Intn(4) == 0 {
						m.read(l, seen)
					}
				}
				if n%50 == 49 {
					m.verify(seen)
				}
				if t.Failed() {
					t.Fatalf("after %s", strings.Join(m.steps[max(0, len(m.steps)-30):], "\n"))
				}
			}
		})
	}
}
