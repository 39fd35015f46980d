package archive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/triggertest"
)

// With the defaults a run with thousands of changes makes few blobs, although one of
// two hosts is killed every 1 to 3 s and a range splits. The third host lives.
func TestBlobsAreLargeByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100
		changes := 9996
		if testing.Short() || !handlerstest.IsLong() {
			changes = 1200
		}
		path := t.TempDir()
		t.Setenv("HALLEY_ARCHIVE_DIRECTORY", path)
		t.Setenv("HALLEY_ARCHIVE_FORMAT", string(JSONLines)) // encoders of Zstandard are shared, beyond the bubble, and have channels
		function := trigger.Function{
			FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}, BatchPolicy: defaultBatches(t),
			StallAfter: time.Hour, // the kills hold it up
		}
		w := triggertest.NewWorld(t, &triggertest.Options{PartitionKey: "/customer", Ranges: 3, Function: function})
		var hosts [3]*process
		for i := range hosts {
			hosts[i] = startProcess(t, w, function)
		}
		time.Sleep(time.Minute) // all leases are held, from now on
		var writes sync.WaitGroup
		writes.Go(func() {
			for i := range changes {
				w.Put(fmt.Sprintf(`{"id":"d%d","customer":"c%d","n":%d}`, i%4000, i%40, i))
				time.Sleep(100 * time.Second / time.Duration(changes))
			}
		})
		random := rand.New(rand.NewPCG(1, 1))
		for kill := range 50 {
			time.Sleep(time.Second + time.Duration(random.Int64N(int64(2*time.Second))))
			if kill == 25 {
				w.Split(w.Ranges()[0])
			}
			i := 1 + random.IntN(len(hosts)-1)
			hosts[i].kill()
			hosts[i] = startProcess(t, w, function)
		}
		writes.Wait()
		time.Sleep(time.Minute) // leases of killed hosts expire after 10 s, and batches wait for 30 s
		if archived := len(read(t, Directory(path), "archive/")); archived != changes {
			t.Errorf("%d changes are archived, want %d", archived, changes)
		}
		if blobs := len(names(t, Directory(path))); blobs > most {
			t.Errorf("%d changes are in %d blobs, want %d at most", changes, blobs, most)
		} else {
			t.Logf("%d changes are in %d blobs", changes, blobs)
		}
		for _, host := range hosts {
			host.kill()
		}
	})
}

// defaultBatches are the batches that an app gives the handler's function.
func defaultBatches(t *testing.T) (b trigger.BatchPolicy) {
	for name, text := range (Settings{}).FunctionDefaults() {
		var err error
		switch name {
		case "MAX_ITEMS_PER_INVOCATION":
			b.MaxItemsPerInvocation, err = strconv.Atoi(text)
		case "BATCH_BYTES":
			b.BatchBytes, err = strconv.Atoi(text)
		case "MAX_AHEAD":
			b.MaxAhead, err = strconv.Atoi(text)
		case "BATCH_WINDOW":
			b.BatchWindow, err = time.ParseDuration(text)
		default:
			err = errors.New("the test does not know it")
		}
		if err != nil {
			t.Fatalf("%s=%s: %v", name, text, err)
		}
	}
	return b
}

// process is a host that can be killed: none of its requests is answered any more.
type process struct {
	account *emulator.Account
	dead    atomic.Bool
	stop    context.CancelFunc
	ended   chan error
}

var errKilled = errors.New("host was killed")

func startProcess(t *testing.T, w *triggertest.World, f trigger.Function) *process {
	t.Helper()
	p := &process{account: w.Account(), ended: make(chan error, 1)}
	client := clientOf(t, w, p)
	handle := handlerstest.Under(t, entry, handlers.Env{})
	f.Name = "archive"
	f.Container = client.Container(triggertest.Database, triggertest.Container)
	f.Handler = func(ctx context.Context, b trigger.Batch) error {
		if p.dead.Load() {
			return errKilled
		}
		return handle(ctx, b)
	}
	host, err := trigger.New(client.Container(triggertest.Database, "leases"), []trigger.Function{f}, &trigger.Options{
		LeaseAcquireInterval: 2 * time.Second, LeaseRenewInterval: 3 * time.Second, LeaseExpirationInterval: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	go func() { p.ended <- host.Run(ctx) }()
	return p
}

func clientOf(t *testing.T, w *triggertest.World, transport policy.Transporter) *cosmos.Client {
	t.Helper()
	key, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := cosmos.NewClient(w.Account().Endpoint(), key, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Do sends a request, unless the process is dead.
func (p *process) Do(r *http.Request) (*http.Response, error) {
	if p.dead.Load() {
		return nil, errKilled
	}
	return p.account.Do(r)
}

// kill returns when the runtime has ended, which cannot save anything any more.
func (p *process) kill() {
	p.dead.Store(true)
	p.stop()
	<-p.ended
}
