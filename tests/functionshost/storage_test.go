package functionshost

import (
	"context"
	"encoding/base64"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/google/uuid"
)

// queues returns the account of Azurite.
func queues(t *testing.T, hold time.Duration) Queues {
	t.Helper()
	text := os.Getenv("HALLEY_TEST_AZURITE")
	if text == "" {
		t.Skip("HALLEY_TEST_AZURITE is not set: it takes the connection string of a running Azurite")
	}
	service, err := azqueue.NewServiceClientFromConnectionString(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Queues{Service: service, Hold: hold}
}

// queueApp is an app whose functions have one queue each, deleted when the test ends.
func queueApp(t *testing.T, q Queues, settings string, names ...string) (root string, queueNames map[string]string) {
	t.Helper()
	functions, queueNames := map[string]string{}, map[string]string{}
	for _, name := range names {
		queue := name + "-" + uuid.NewString()
		queueNames[name] = queue
		functions[name] = `{"bindings":[{"type":"queueTrigger","direction":"in","name":"m","queueName":"` + queue + `"}]}`
		t.Cleanup(func() {
			for _, suffix := range []string{"", "-poison"} {
				_, _ = q.Service.DeleteQueue(context.Background(), queue+suffix, nil)
			}
		})
	}
	return writeApp(t, `{"version":"2.0","extensionBundle":{},"extensions":{"queues":`+settings+`},"customHandler":{"description":{"defaultExecutablePath":"handler"}}}`, functions), queueNames
}

func put(t *testing.T, q Queues, queue string, n int) {
	t.Helper()
	client, err := q.open(t.Context(), queue)
	for range n {
		if err == nil {
			_, err = client.EnqueueMessage(t.Context(), base64.StdEncoding.EncodeToString([]byte(`{"range":"0"}`)), nil)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// length returns the number of messages in a queue, hidden ones included.
func length(t *testing.T, q Queues, queue string) int {
	t.Helper()
	p, err := q.Service.NewQueueClient(queue).GetProperties(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return int(*p.ApproximateMessagesCount)
}

// listen runs the trigger of a function until stop is called.
func listen(t *testing.T, h *Host, q Queues, function string, done func(Result)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Listen(ctx, q, function, done) }()
	stop = sync.OnceFunc(func() {
		cancel()
		h.Close() // a call that is running ends with its process
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func TestFailingMessageBecomesPoison(t *testing.T) {
	q := queues(t, 0)
	root, names := queueApp(t, q, `{"maxDequeueCount":3}`, "refuse", "ok")
	h := startApp(t, root, Options{})
	put(t, q, names["refuse"], 1)
	put(t, q, names["ok"], 5)
	var failures, successes atomic.Int64
	count := func(r Result) {
		if r.Err != nil {
			failures.Add(1)
		} else {
			successes.Add(1)
		}
	}
	listen(t, h, q, "refuse", count)
	listen(t, h, q, "ok", count)
	eventually(t, "the message is poison and the others are gone", func() bool {
		return length(t, q, names["refuse"]) == 0 && length(t, q, names["ok"]) == 0
	})
	eventually(t, "all results are known", func() bool { return failures.Load() == 3 && successes.Load() == 5 })
	if n := length(t, q, names["refuse"]+"-poison"); n != 1 {
		t.Errorf("%d poison messages", n)
	}
}

// No more than batchSize and newBatchThreshold messages are in flight on an instance. If
// the instance is gone, its messages come back, and another one gets them.
func TestMessagesOfLostInstanceComeBack(t *testing.T) {
	q := queues(t, 2*time.Second)
	root, names := queueApp(t, q, `{"batchSize":2,"newBatchThreshold":1}`, "slow")
	lost := startApp(t, root, Options{})
	put(t, q, names["slow"], 5)
	stop := listen(t, lost, q, "slow", nil)
	visible := func() int {
		got, err := q.Service.NewQueueClient(names["slow"]).PeekMessages(t.Context(), &azqueue.PeekMessagesOptions{NumberOfMessages: seconds(32 * time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		return len(got.Messages)
	}
	eventually(t, "a batch is in flight", func() bool { return visible() == 3 })
	stop()
	if n := length(t, q, names["slow"]); n != 5 {
		t.Errorf("%d messages after the instance is gone", n)
	}
	eventually(t, "its messages are visible again", func() bool { return visible() == 5 })
}
