package emulator

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// reopen closes the account of a client and opens its directory again.
func reopen(t testing.TB, a *Account, opts *Options) (*client, *Account) {
	t.Helper()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return newClient(t, opts)
}

// picture is all that a client can read of an account.
func picture(c *client) []string {
	var all []string
	for _, path := range []string{"/dbs", "/dbs/db/colls", "/dbs/db/colls/c/pkranges", "/offers"} {
		a := c.expect("200", "GET", path, "")
		all = append(all, a.header.Get("etag"), a.body)
	}
	for _, r := range c.ranges() {
		a := c.send("GET", items, "", with(feedHeader, rangeID(r.ID)...)...)
		end := c.feed("304", with(rangeID(r.ID), "If-None-Match", "*")...)
		all = append(all, a.body, end.header.Get("etag"), end.header.Get("x-ms-session-token"))
	}
	return all
}

func TestRestartKeepsEverything(t *testing.T) {
	opts := &Options{Data: filepath.Join(t.TempDir(), "new")}
	c, a := newItems(t, 2, opts)
	for i, k := range keys(30) {
		c.create("id-"+k, k)
		if i%4 == 0 {
			c.upsert(doc("id-"+k, k), k)
		}
		if i%7 == 0 {
			c.expect("204", "DELETE", items+"/id-"+k, "", pk(k)...)
		}
	}
	children, err := a.Split("db", "c", "0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Merge("db", "c", children[1], "1"); err != nil {
		t.Fatal(err)
	}
	c.expect("200", "PUT", "/dbs/db/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":-1}`)
	c.expect("200", "POST", items, `[{"operationType":"Upsert","resourceBody":{"id":"b1","pk":"k"}},{"operationType":"Upsert","resourceBody":{"id":"b2","pk":"k"}},{"operationType":"Delete","id":"b1"}]`,
		with(pk("k"), "x-ms-cosmos-is-batch-request", "True")...)
	c.expect("201", "POST", "/dbs", `{"id":"dropped"}`)
	c.expect("201", "POST", "/dbs/dropped/colls", `{"id":"x","partitionKey":{"paths":["/pk"]}}`)
	c.expect("204", "DELETE", "/dbs/dropped", "")
	c.expect("201", "POST", "/dbs/db/colls", `{"id":"y","partitionKey":{"paths":["/pk"]}}`)
	c.expect("204", "DELETE", "/dbs/db/colls/y", "")

	oldPicture := picture(c)
	c, _ = reopen(t, a, opts)
	if newPicture := picture(c); !reflect.DeepEqual(oldPicture, newPicture) {
		for i := range oldPicture {
			if oldPicture[i] != newPicture[i] {
				t.Errorf("before: %s\n after: %s", oldPicture[i], newPicture[i])
			}
		}
	}
	fresh := c.create("fresh", "k")
	for _, old := range oldPicture {
		if strings.Contains(old, strings.Trim(fresh.header.Get("etag"), `"`)) {
			t.Errorf("etag %s was given before the restart", fresh.header.Get("etag"))
		}
	}
}

func TestRecreatedContainerHasNewIdentity(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	rid := func() any { return c.expect("200", "GET", "/dbs/db/colls/c", "").decode(t)["_rid"] }
	first := rid()
	if n := len(decodeRID(first.(string))); n != 8 {
		t.Errorf("_rid %v has %d bytes, want 8", first, n)
	}
	c.expect("204", "DELETE", "/dbs/db/colls/c", "")
	c.expect("201", "POST", "/dbs/db/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`)
	if rid() == first {
		t.Errorf("the new container has the old one's _rid %v", first)
	}
}

func TestDataDirectoryHasOneUser(t *testing.T) {
	t.Parallel()
	opts := &Options{Data: t.TempDir()}
	newClient(t, opts)
	if _, err := New(opts); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second account on the directory: %v", err)
	}
}

func TestOpenRefusesForeignData(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "account.db"), []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(&Options{Data: dir}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a file that is no store: %v", err)
	}
	file := filepath.Join(dir, "account.db", "below")
	if _, err := New(&Options{Data: file}); err == nil {
		t.Error("a directory below a file was accepted")
	}
}

func TestOpenRefusesCorruptData(t *testing.T) {
	good := encode(map[string]any{"format": format})
	for name, damage := range map[string][]record{
		"metadata":           {{accountBucket, metaKey, []byte("{")}},
		"format 99":          {{accountBucket, metaKey, []byte(`{"format":99}`)}},
		"database":           {{accountBucket, metaKey, good}, {databaseBucket, numberKey(9), []byte("x")}},
		"container":          {{accountBucket, metaKey, good}, {containerBucket, numberKey(2), []byte("x")}},
		"its database":       {{containerBucket, numberKey(9), []byte(`{"name":"orphan","database":77}`)}},
		"state is missing":   {{bucket: "state-2"}},
		"LSN of range":       {{"state-2", []byte("0"), []byte("short")}},
		"item record":        {{"items-2", []byte("no separator"), []byte("x")}},
		"version record":     {{"versions-2", []byte("short"), []byte("x")}},
		"version numbers":    {{"versions-2", make([]byte, 8), []byte{0xff}}},
		"version flag":       {{"versions-2", make([]byte, 8), []byte{2, 2}}},
		"version images":     {{"versions-2", make([]byte, 8), []byte{2, 2, 0, 1, 'k', 9}}},
		"version of nothing": {{"versions-2", make([]byte, 8), []byte{2, 2, 0, 1, 'k', 0, 0}}},
		"item of a version":  {{"versions-2", make([]byte, 8), []byte{2, 2, 0, 1, 'k', 1, 2, 0}}},
		"record is corrupt":  {{"items-2", []byte("[\"k\"]\x00a"), []byte{2, 2, 2, 2, 2, 2, 0xff, 0xff, 0x03}}},
	} {
		t.Run(name, func(t *testing.T) {
			options := &Options{Data: t.TempDir()}
			a, err := New(options)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.CreateContainer("db", "c", "/pk", 1); err != nil {
				t.Fatal(err)
			}
			a.store.enqueue(damage...)
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := New(options); err == nil || !strings.Contains(err.Error(), strings.Fields(name)[0]) {
				t.Errorf("opened with %v, want an error that names the %s", err, name)
			}
		})
	}
}

func TestFailedStore(t *testing.T) {
	a, err := New(&Options{Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.CreateContainer("db", "c", "/pk", 1); err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, do: a.Do, endpoint: strings.TrimSuffix(a.Endpoint(), "/")}
	c.create("a", "k")
	if err := a.store.db.Close(); err != nil {
		t.Fatal(err)
	}
	c.expect("503", "POST", items, doc("b", "k"), pk("k")...)
	c.expect("503", "GET", items+"/b", "", pk("k")...) // it was never stored
	if err := a.Close(); err == nil {
		t.Error("Close is silent about what was not stored")
	}
}

// crashing is the environment variable that turns the test binary into a writer
// for TestKilledWriterLosesNoAcknowledgedWrite.
const crashing = "HALLEY_EMULATOR_TEST_DIRECTORY"

// TestCrashWriter writes and reads until it is killed, and prints each thing only
// after the account told it.
func TestCrashWriter(t *testing.T) {
	dir := os.Getenv(crashing)
	if dir == "" {
		t.Skip("runs as the child of TestKilledWriterLosesNoAcknowledgedWrite")
	}
	c, a := newItems(t, 2, &Options{Data: dir})
	var mu sync.Mutex
	printLine := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d", w, i)
				got := c.send("POST", items, doc(id, id), pk(id)...)
				printLine("wrote %s %s", id, got.header.Get("etag"))
			}
		})
	}
	writers.Go(func() {
		for n := 0; ; n++ {
			for _, r := range c.ranges() {
				got := c.send("GET", items, "", with(feedHeader, "x-ms-documentdb-partitionkeyrangeid", r.ID, "If-None-Match", "*")...)
				printLine("ended %s %s", r.ID, got.header.Get("etag"))
			}
			if n == 20 {
				if _, err := a.Split("db", "c", "0"); err != nil {
					t.Error(err)
				}
				printLine("split 0 .")
			}
		}
	})
	writers.Wait()
}

// TestKilledWriterLosesNoAcknowledgedWrite kills a process in the middle of its writes and finds all that it was told.
func TestKilledWriterLosesNoAcknowledgedWrite(t *testing.T) {
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrashWriter$")
	child.Env = append(os.Environ(), crashing+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	wrote, ended, split := map[string]string{}, map[string]int{}, false
	lines := bufio.NewScanner(out)
	for killed := false; lines.Scan(); {
		var kind, name, value string
		if n, _ := fmt.Sscan(lines.Text(), &kind, &name, &value); n == 3 {
			switch kind {
			case "wrote":
				wrote[name] = value
			case "ended":
				ended[name] = max(ended[name], lsnOf(value))
			case "split":
				split = true
			}
		}
		if len(wrote) > 300 && split && !killed {
			killed = true
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = child.Wait() // it was killed
	if len(wrote) <= 300 {
		t.Fatalf("the child wrote %d items only", len(wrote))
	}

	c, a := newClient(t, &Options{Data: dir})
	for id, etag := range wrote {
		if got := c.expect("200", "GET", items+"/"+id, "", pk(id)...); got.header.Get("etag") != etag {
			t.Errorf("item %s has etag %s, not %s", id, got.header.Get("etag"), etag)
		}
	}
	seen := map[string]bool{}
	for _, r := range a.State().Databases[0].Containers[0].Ranges {
		if r.LSN < int64(ended[r.ID]) {
			t.Errorf("range %s is at LSN %d, but a reader has seen %d", r.ID, r.LSN, ended[r.ID])
		}
		for token := ""; ; {
			got := c.send("GET", items, "", with(feedHeader, "x-ms-documentdb-partitionkeyrangeid", r.ID, "If-None-Match", token)...)
			if got.status == 304 {
				break
			}
			if got.status != 200 {
				t.Fatalf("feed of range %s after %s: %d %s", r.ID, token, got.status, got.body)
			}
			token = got.header.Get("etag")
			for _, id := range got.ids(t) {
				seen[id] = true
			}
		}
	}
	for id := range wrote {
		if !seen[id] {
			t.Errorf("item %s is not in the feed", id)
		}
	}
	if _, ok := ended["0"]; !ok || len(a.State().Databases[0].Containers[0].Ranges) != 3 {
		t.Error("the split was not kept")
	}
}

func TestStoreInBubble(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c, a := newItems(t, 1, &Options{Data: dir, Latency: time.Second})
		var writers sync.WaitGroup
		for i := range 10 {
			writers.Go(func() {
				id := fmt.Sprint(i)
				if got, err := c.try("POST", items, doc(id, id), pk(id)...); err != nil || got.status != 201 {
					t.Errorf("create: %v, %v", got, err)
				}
			})
		}
		writers.Wait()
		if got := a.State().Databases[0].Containers[0].Items; got != 10 {
			t.Errorf("%d items", got)
		}
	})
}

func BenchmarkCreateOnDisk(b *testing.B) {
	c, _ := newItems(b, 4, &Options{Data: b.TempDir()})
	b.SetParallelism(32)
	benchmarkCreate(b, c)
}

func BenchmarkCreateInMemory(b *testing.B) {
	c, _ := newItems(b, 4, nil)
	benchmarkCreate(b, c)
}
