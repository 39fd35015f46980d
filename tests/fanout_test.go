package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"halley/tests/functionshost"
)

// instances are instances of the packaged app in the mode fanout, on Azurite's queue.
type instances struct {
	t        *testing.T
	root     string
	settings map[string]string
	queues   functionshost.Queues
	queue    string // its name
	done     func(functionshost.Result)

	running []*instance
}

// instance is a stand-in Functions host with its process of the app.
type instance struct {
	*functionshost.Host
	answered atomic.Int64 // messages
	stop     func()       // ends the listener without giving its messages back
}

// startInstances packages the app with a queue of its own for the test.
func startInstances(t *testing.T, settings map[string]string) *instances {
	t.Helper()
	connection := os.Getenv("HALLEY_TEST_AZURITE")
	if connection == "" {
		t.Skip("HALLEY_TEST_AZURITE is not set: no queue service to test with")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the package is a Linux binary")
	}
	service, err := azqueue.NewServiceClientFromConnectionString(connection, nil)
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "halley.zip")
	cmd := exec.Command(binaries.halley, "package", "--fanout", "--arch", runtime.GOARCH, "--output", target)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("halley package --fanout: %v\n%s", err, out)
	}
	f := &instances{t: t, root: unzip(t, target), settings: settings, queue: fmt.Sprint("ranges-", time.Now().UnixNano())}
	// A message of a lost instance comes back after 3 s and not after 10 min.
	f.queues = functionshost.Queues{Service: service, Hold: 3 * time.Second}
	settings["HALLEY_MODE"] = "fanout"
	f.edit("function/function.json", `"halley-ranges"`, `"`+f.queue+`"`)
	f.edit("drain/function.json", `"halley-ranges"`, `"`+f.queue+`"`)
	f.edit("host.json", `"visibilityTimeout": "00:00:10"`, `"visibilityTimeout": "00:00:01", "batchSize": 2, "newBatchThreshold": 0, "maxPollingInterval": "00:00:00.2"`)
	t.Cleanup(func() {
		for _, suffix := range []string{"", "-poison"} {
			_, _ = service.DeleteQueue(context.Background(), f.queue+suffix, nil)
		}
	})
	return f
}

// edit replaces a text in a file of the package.
func (f *instances) edit(name, old, now string) {
	f.t.Helper()
	path := filepath.Join(f.root, filepath.FromSlash(name))
	text, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(text), old) {
		err = fmt.Errorf("%s has no %s", name, old)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(text), old, now, 1)), 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// add starts an instance that processes no message yet.
func (f *instances) add() *instance {
	f.t.Helper()
	i := &instance{Host: hostApp(f.t, f.root, f.settings, functionshost.Options{}), stop: func() {}}
	f.running = append(f.running, i)
	return i
}

// listen has an instance process messages until it stops.
func (f *instances) listen(i *instance) {
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- i.Listen(ctx, f.queues, "drain", func(r functionshost.Result) {
			i.answered.Add(1)
			f.done(r)
		})
	}()
	i.stop = sync.OnceFunc(func() {
		cancel()
		i.Close() // before the listener has ended: it waits for its calls
		if err := <-ended; err != nil {
			f.t.Errorf("listener: %v", err)
		}
	})
	f.t.Cleanup(func() { i.stop() })
}

// tick fires the timer on an instance and sends the messages.
func (f *instances) tick(i *instance) (messages int) {
	f.t.Helper()
	r := ended(f.t, i.FireTimer("function", functionshost.Timer{}))
	if r.Err != nil {
		f.t.Fatalf("tick: %v", r.Err)
	}
	messages, err := i.Send(f.t.Context(), f.queues, "function", r)
	if err != nil {
		f.t.Fatal(err)
	}
	return messages
}

// strike kills a random instance: its process with SIGKILL, which the Functions host
// starts again, or the whole instance, whose place another one takes. The timer runs on
// another instance: a tick that is killed after its mark delays ranges by ten minutes,
// which is tested in virtual time.
func (f *instances) strike() {
	f.t.Helper()
	n := rand.N(len(f.running))
	i := f.running[n]
	if rand.N(2) == 0 && i.Starts() == 1 { // the host gives up at the third error
		i.Crash()
		return
	}
	i.stop()
	f.running = append(f.running[:n], f.running[n+1:]...)
	f.listen(f.add())
}

// writeAll writes one result of each player.
func (l load) writeAll(t *testing.T, seq int64) {
	t.Helper()
	var writing sync.WaitGroup
	const writers = 16
	for w := range writers {
		writing.Go(func() {
			for player := w; player < l.players; player += writers {
				if err := l.write(t.Context(), fmt.Sprintf("player-%d", player), seq); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
}

// A queue spreads 64 ranges over four instances. Then instances are killed at random under
// load, and nothing is lost or late.
func TestQueueSpreadsRangesOverInstances(t *testing.T) {
	if testing.Short() {
		t.Skip("packages the app and kills instances for some seconds")
	}
	a := startAccount(t, 64)
	b := newBoard(t)
	b.slowly(t, 50*time.Millisecond)
	r := newRecord(t)
	f := startInstances(t, b.smallBatches(a))
	answers := make(chan functionshost.Result, 128)
	f.done = func(r functionshost.Result) {
		select {
		case answers <- r:
		default: // the rounds are over
		}
	}
	l := a.distinct(r)
	l.players = 640

	f.listen(f.add())
	l.writeAll(t, 1)
	one := f.round(answers)
	for range 3 {
		i := f.add()
		if n := f.tick(i); n != 0 {
			t.Errorf("%d messages without changes", n)
		}
		f.listen(i)
	}
	l.writeAll(t, 2)
	f.running[0].answered.Store(0)
	four := f.round(answers)
	for n, i := range f.running {
		if got := i.answered.Load(); got < 64/4/2 { // the queue stands still for all alike
			t.Errorf("instance %d of four has answered %d of 64 messages", n, got)
		}
	}
	if missing := b.missing(t, r); missing != 0 {
		t.Errorf("%d changes are missing after all messages were answered", missing)
	}
	t.Logf("one instance %v, four instances %v", one.Round(time.Millisecond), four.Round(time.Millisecond))

	l.players, l.pause = 200, time.Second
	stop := l.from(3).start(t)
	for strikes := 0; strikes < 6; strikes++ {
		f.tick(f.running[rand.N(len(f.running))])
		<-time.After(time.Duration(300+rand.N(600)) * time.Millisecond) // some messages are in flight then
		f.strike()
	}
	stop()
	eventually(t, "every change is on its board", func() bool {
		f.tick(f.running[0])
		return b.missing(t, r) == 0
	})
	written := len(r.events(t))
	if stored := len(a.documents(t, results)); stored != written {
		t.Errorf("the account has %d documents, the record %d", stored, written)
	}
	t.Logf("%d changes written", written)
}

// round sends the messages of all ranges, and returns the time until the last answer.
func (f *instances) round(answers <-chan functionshost.Result) time.Duration {
	f.t.Helper()
	n := f.tick(f.running[0])
	if n != 64 {
		f.t.Fatalf("%d messages, want one for each of 64 ranges", n)
	}
	began := time.Now()
	for range n {
		select {
		case r := <-answers:
			if r.Err != nil {
				f.t.Errorf("message: %v", r.Err)
			}
		case <-time.After(patience):
			f.t.Fatal("messages are not answered")
		}
	}
	return time.Since(began)
}
