package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"halley/handlers"
	"halley/handlers/push/pushservice"
	"halley/trigger"
	"halley/trigger/cosmos"
)

func TestOvertakenPlayerIsNotified(t *testing.T) {
	eachRedis(t, func(t *testing.T, w *world) {
		w.subscribe("ada", "bob", "cid", "dan", "ada")
		steps := []struct {
			what    string
			results []string
			want    []string
		}{
			{"an empty board", []string{"ada 100"}, nil},
			{"a newcomer below", []string{"bob 50"}, nil},
			{"a newcomer in between", []string{"cid 70"}, []string{"bob 1: cid 70 > 50"}},
			{"level with the one above", []string{"bob 70"}, nil},
			{"ahead of one that was level", []string{"bob 71"}, []string{"cid 1: bob 71 > 70"}},
			{"a newcomer over all of the top 3", []string{"dan 200"},
				[]string{"ada 1: dan 200 > 100", "ada 2: dan 200 > 100", "bob 1: dan 200 > 71", "cid 1: dan 200 > 70"}},
			{"one raises their own lead", []string{"dan 300"}, nil},
			{"worse than one's best", []string{"bob 3"}, nil},
			{"past one that is not in the top 3", []string{"eve 60", "eve 70.5"}, nil},
			{"several in a batch", []string{"cid 150", "bob 160", "eve 1e3"},
				[]string{"ada 1: bob 160 > 100", "ada 1: cid 150 > 100",
					"ada 2: bob 160 > 100", "ada 2: cid 150 > 100",
					"bob 1: eve 1000 > 160", "cid 1: bob 160 > 150", "cid 1: eve 1000 > 150", "dan 1: eve 1000 > 300"}},
		}
		for _, step := range steps {
			t.Log(step.what)
			expect(t, w.played(step.results...), step.want...)
		}
	})
}

func TestGamesAreIndependent(t *testing.T) {
	w := newWorld(t, nil)
	w.subscribe("ada")
	expect(t, w.played("ada 100"))
	b := batch(t, time.Now(), "bob 500")
	b.Changes[0].Document = json.RawMessage(strings.Replace(string(b.Changes[0].Document), "chess", "go", 1))
	received, err := w.deliver(t.Context(), b)
	w.check(err)
	expect(t, received)
}

func TestMessageContent(t *testing.T) {
	w := newWorld(t, nil)
	w.subscribe("ada")
	w.played("ada 100.5")
	at := time.Now().Truncate(time.Second)
	received, err := w.receive(t.Context(), batch(t, at, "bob<&> 120"))
	w.check(err)
	if len(received) != 1 {
		t.Fatalf("received %v", received)
	}
	n := received[0]

	want := fmt.Sprintf(`{"type":"overtaken","game":"chess","player":"ada","best":100.5,"by":"bob<&>","score":120,"at":%d,"tag":%q}`, at.Unix(), n.Topic)
	if string(n.Message) != want {
		t.Errorf("message is %s, want %s", n.Message, want)
	}
	if len(n.Topic) != 32 || n.TTL != 2*time.Hour || n.Urgency != "normal" || n.Subject != "mailto:ops@example.com" {
		t.Errorf("notification is %+v", n)
	}
}

func TestRedeliveryDoesNotNotifyTwice(t *testing.T) {
	eachRedis(t, func(t *testing.T, w *world) {
		w.subscribe("ada", "bob")
		w.played("ada 100")
		expect(t, w.played("bob 90", "bob 120"), "ada 1: bob 120 > 100")
		expect(t, w.played("bob 90", "bob 120"))
		w.open() // by the next process
		expect(t, w.played("bob 120"))
		expect(t, w.played("ada 100", "bob 90", "bob 120"))
		expect(t, w.played("ada 130"), "bob 1: ada 130 > 120")
		expect(t, w.played("bob 120", "ada 100"))
		expect(t, w.due())
	})
}

// With any order, redeliveries and failures, no player is notified twice of the
// same overtaking, and at the end no notification is due.
func TestRandomDeliveries(t *testing.T) {
	w := newWorld(t, nil)
	w.subscribe("p0", "p1", "p2", "p3", "p4")
	random := rand.New(rand.NewPCG(3, 4))
	var history []string
	seen := map[string]bool{}
	see := func(received []string) {
		for _, r := range received {
			if seen[r] {
				t.Errorf("%s was told twice", r)
			}
			seen[r] = true
		}
	}
	for i := range 30 {
		result := fmt.Sprintf("p%d %d", random.IntN(5), 10*i+random.IntN(100))
		history = append(history, result)
		from := max(0, len(history)-1-random.IntN(4))
		if i%3 == 0 {
			w.answer(fmt.Sprintf("p%d 1", random.IntN(5)), pushservice.Answer{Status: 500})
		}
		received, err := w.play(history[from:]...)
		see(received)
		for err != nil {
			refused(t, err)
			received, err = w.play(history[from:]...)
			see(received)
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d notifications: %v", len(seen), seen)
	}
	expect(t, w.due())
}

func TestFailedPushFailsTheBatch(t *testing.T) {
	eachRedis(t, func(t *testing.T, w *world) {
		w.subscribe("ada", "ada", "bob")
		w.played("ada 100", "bob 90")
		w.answer("ada 1", pushservice.Answer{Status: 500, Text: "try later"})

		received, err := w.play("cid 120")
		expect(t, received, "ada 2: cid 120 > 100", "bob 1: cid 120 > 90")
		if refusal := refused(t, err); refusal.Status != 500 || refusal.Text != "try later" {
			t.Errorf("refusal is %+v", refusal)
		}
		if !strings.Contains(err.Error(), `notify player "ada": subscription "`) || strings.Contains(err.Error(), w.devices["ada 1"].Endpoint) {
			t.Errorf("error is %v", err)
		}

		w.open() // a crash in between loses nothing
		expect(t, w.played("cid 120"), "ada 1: cid 120 > 100")
		expect(t, w.played("cid 120"))
		expect(t, w.due())
	})
}

// If an overtaking is reversed before its notification is sent, none is sent.
func TestReversedOvertakingIsDropped(t *testing.T) {
	eachRedis(t, func(t *testing.T, w *world) {
		w.subscribe("ada", "bob")
		w.played("ada 100")
		expect(t, w.played("bob 120", "ada 130"), "bob 1: ada 130 > 120")

		w.answer("ada 1", pushservice.Answer{Status: 503})
		if _, err := w.play("bob 140"); err == nil {
			t.Fatal("a failing push service is no error")
		}
		expect(t, w.played("ada 140"))
		expect(t, w.played("bob 140")) // level again: dropped
		expect(t, w.due())
	})
}

func TestEndedSubscriptionsAreRemoved(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusGone} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			w := newWorld(t, nil)
			w.subscribe("ada", "ada")
			w.played("ada 100")
			w.answer("ada 1", pushservice.Answer{Status: status})
			expect(t, w.played("bob 120"), "ada 2: bob 120 > 100")
			if n := w.stored("ada"); n != 1 {
				t.Errorf("%d subscriptions are left", n)
			}
			expect(t, w.played("cid 130"), "ada 2: cid 130 > 100")
		})
	}
}

// If a device subscribes again when its old endpoint has ended, it stays.
func TestResubscribedDeviceIsNotRemoved(t *testing.T) {
	w := newWorld(t, nil)
	w.subscribe("ada")
	devices, err := (&Subscriptions{w.subscriptions, WebPush}).Devices(t.Context(), "ada")
	w.check(err)
	w.store(devices[0])
	w.check((&Subscriptions{w.subscriptions, WebPush}).Remove(t.Context(), devices[0]))
	if n := w.stored("ada"); n != 1 {
		t.Errorf("%d subscriptions are left", n)
	}
	devices, err = (&Subscriptions{w.subscriptions, WebPush}).Devices(t.Context(), "ada")
	w.check(err)
	for range 2 { // the second time it is already removed
		w.check((&Subscriptions{w.subscriptions, WebPush}).Remove(t.Context(), devices[0]))
	}
	if n := w.stored("ada"); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

func TestTooManyRequestsPausesEndpoint(t *testing.T) {
	w := newWorld(t, nil)
	w.subscribe("ada", "ada")
	w.played("ada 100")
	w.answer("ada 1", pushservice.Answer{Status: 429, Header: http.Header{"Retry-After": {"120"}}})
	received, err := w.play("bob 120")
	expect(t, received, "ada 2: bob 120 > 100")
	if refusal := refused(t, err); refusal.Status != 429 || refusal.RetryAfter != 2*time.Minute {
		t.Errorf("refusal is %+v", refusal)
	}
	if !strings.Contains(err.Error(), "answered 429 Too Many Requests, retry after 2m0s") {
		t.Errorf("error is %v", err)
	}
	// Until then no request is sent, although the push service would accept it.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	received, err = w.deliver(ctx, batch(t, time.Now(), "bob 120"))
	expect(t, received)
	if refusal := refused(t, err); refusal.Status != 429 || refusal.RetryAfter > 2*time.Minute || refusal.RetryAfter < time.Minute {
		t.Errorf("refusal is %+v", refusal)
	}
}

// If the pause ends before the deadline, the call waits for it, so that no further
// call is needed. The player's other device is notified first.
func TestCallWaitsForRetryAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.subscribe("ada", "ada")
	w.played("ada 100")
	w.answer("ada 1", pushservice.Answer{Status: 429, Header: http.Header{"Retry-After": {"1"}}})
	began := time.Now()
	received, err := w.play("bob 120")
	expect(t, received, "ada 2: bob 120 > 100")
	refused(t, err)
	both, err := w.receive(t.Context(), batch(t, time.Now(), "cid 130"))
	w.check(err)
	if len(both) != 2 || time.Since(began) < time.Second {
		t.Fatalf("%d notifications after %v", len(both), time.Since(began))
	}
	expect(t, []string{w.describe(both[0]), w.describe(both[1])}, "ada 2: cid 130 > 100", "ada 1: cid 130 > 100")
	expect(t, w.played("bob 120"), "ada 1: bob 120 > 100")
	expect(t, w.due())
}

// One player's document must not stop the feed for the others.
func TestUnusableSubscriptionsAreSkipped(t *testing.T) {
	w := newWorld(t, nil)
	w.subscribe("ada")
	good := w.devices["ada 1"]
	keys := Keys{P256dh: good.P256dh, Auth: good.Auth}
	bad := map[string]Subscription{
		"plain http":      NewSubscription("ada", "http://push.example/x", keys),
		"another scheme":  NewSubscription("ada", "file:///etc/passwd", keys),
		"no host":         NewSubscription("ada", "https:///x", keys),
		"user name":       NewSubscription("ada", "https://a:b@push.example/x", keys),
		"metadata":        NewSubscription("ada", "https://169.254.169.254/metadata", keys),
		"mapped metadata": NewSubscription("ada", "https://[::ffff:169.254.169.254]/metadata", keys),
		"no endpoint":     NewSubscription("ada", "", keys),
		"short secret":    NewSubscription("ada", good.Endpoint+"1", Keys{P256dh: good.P256dh, Auth: "AAAA"}),
		"key off curve":   NewSubscription("ada", good.Endpoint+"2", Keys{P256dh: strings.Repeat("A", 87), Auth: good.Auth}),
		"no keys":         NewSubscription("ada", good.Endpoint+"3", Keys{}),
	}
	for _, s := range bad {
		w.store(s)
	}
	w.played("ada 100")
	expect(t, w.played("bob 120"), "ada 1: bob 120 > 100")
	expect(t, w.due())
	warnings := w.logs.FilterMessage("subscription cannot be used").All()
	if len(warnings) != len(bad) {
		t.Errorf("%d warnings for %d subscriptions", len(warnings), len(bad))
	}
	for _, entry := range warnings {
		if text := fmt.Sprint(entry.ContextMap()); strings.Contains(text, good.Endpoint) || strings.Contains(text, good.Auth) {
			t.Errorf("warning tells secrets: %s", text)
		}
	}
}

// A document of another form among the subscriptions cannot be used.
func TestForeignDocumentAmongSubscriptions(t *testing.T) {
	w := newWorld(t, nil)
	w.subscribe("ada")
	_, err := w.subscriptions.Upsert(t.Context(), cosmos.NewPartitionKey("ada"), json.RawMessage(`{"id":"x","player":"ada","endpoint":7,"keys":[]}`))
	w.check(err)
	w.played("ada 100")
	expect(t, w.played("bob 120"), "ada 1: bob 120 > 100")
}

func TestOldResultsCountWithoutNotification(t *testing.T) {
	eachRedis(t, func(t *testing.T, w *world) {
		w.subscribe("ada", "bob")
		received, err := w.deliver(t.Context(), batch(t, time.Now().Add(-2*time.Hour), "ada 100", "bob 120"))
		w.check(err)
		expect(t, received)
		expect(t, w.played("ada 130"), "bob 1: ada 130 > 120")
	})
}

// A notification is dropped when it is too old, so that a push service that is
// down holds up the range no longer than that.
func TestOldOvertakingsAreDropped(t *testing.T) {
	w := newWorld(t, nil)
	w.subscribe("ada")
	w.played("ada 100")
	w.answer("ada 1", pushservice.Answer{Status: 500})
	written := time.Now().Add(-time.Hour + 30*time.Second)
	received, err := w.deliver(t.Context(), batch(t, written, "bob 120"))
	expect(t, received)
	refused(t, err)

	w.settings.MaxAge = handlers.Interval(time.Minute) // instead of waiting
	w.open()
	received, err = w.deliver(t.Context(), batch(t, written, "bob 120"))
	w.check(err)
	expect(t, received)
	expect(t, w.due())
}

func TestPoisonFailsBatchBeforeRecording(t *testing.T) {
	w := newWorld(t, nil)
	w.subscribe("ada")
	w.played("ada 100")
	tests := []struct{ document, want string }{
		{`{"id":"x","game":"chess","score":200}`, `result "x": field "player" is missing or empty`},
		{`{"id":"x","game":"chess","player":"bob","score":-1e999}`, `result "x": field "score" is a number -1e999, not a float64 in range`},
		{`7`, `number`},
	}
	for _, tt := range tests {
		b := batch(t, time.Now(), "bob 120")
		b.Changes = append(b.Changes, trigger.Change{Document: json.RawMessage(tt.document)})
		received, err := w.deliver(t.Context(), b)
		expect(t, received)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error is %v, want %s", err, tt.want)
		}
	}
	expect(t, w.played("bob 120"), "ada 1: bob 120 > 100")
}

func TestRedisFailureFailsTheBatch(t *testing.T) {
	w := newWorld(t, nil)
	w.subscribe("ada", "bob")
	w.played("ada 100", "bob 90")
	w.redis.SetError("LOADING Redis is loading the dataset in memory")
	received, err := w.play("cid 120")
	expect(t, received)
	if err == nil || !strings.Contains(err.Error(), `record 1 results of game "chess" in Redis: LOADING`) {
		t.Errorf("error is %v", err)
	}
	w.redis.SetError("")
	expect(t, w.played("cid 120"), "ada 1: cid 120 > 100", "bob 1: cid 120 > 90")
}

// If the process dies or loses Redis when the push service has already accepted,
// the notification is sent again.
func TestRedisFailureAfterSendingRepeatsNotification(t *testing.T) {
	w := newWorld(t, nil)
	w.subscribe("ada")
	pushes := 0
	flaky := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		if pushes++; pushes == 1 {
			w.redis.SetError("READONLY You can't write against a read only replica.")
		}
		answer.WriteHeader(http.StatusCreated)
	}))
	defer flaky.Close()
	keys := w.devices["ada 1"]
	w.store(NewSubscription("bob", flaky.URL, Keys{P256dh: keys.P256dh, Auth: keys.Auth}))

	w.played("bob 100")
	_, err := w.play("cid 120")
	if err == nil || !strings.Contains(err.Error(), "record a notified subscription in Redis: READONLY") {
		t.Errorf("error is %v", err)
	}
	w.redis.SetError("")
	for range 2 {
		w.played("cid 120")
		if pushes != 2 {
			t.Errorf("the device was notified %d times", pushes)
		}
	}
}

// Ranges call the handler at the same time.
func TestConcurrentRanges(t *testing.T) {
	eachRedis(t, func(t *testing.T, w *world) {
		w.subscribe("king")
		w.played("king 1")
		const ranges, rounds = 4, 10
		handled := make(chan error)
		for r := range ranges {
			go func() {
				var err error
				for round := range rounds {
					b := batch(t, time.Now(), fmt.Sprintf("p%d-%d %d", r, round, 1000*round+r+2))
					err = errors.Join(err, w.handler(t.Context(), b))
				}
				handled <- err
			}()
		}
		told := map[string]int{}
		for running := ranges; running > 0; {
			select {
			case n := <-w.service.Notifications():
				told[w.describe(n)]++
			case err := <-handled:
				w.check(err)
				running--
			}
		}
		for what, times := range told {
			if times != 1 {
				t.Errorf("%s was told %d times", what, times)
			}
		}
		if len(told) < 3 { // king is in the top 3 until three have passed
			t.Errorf("told: %v", told)
		}
		expect(t, w.due())
	})
}

func TestSubscriptionsContainerWithAnotherPartitionKey(t *testing.T) {
	w := newWorld(t, nil)
	w.createContainer(w.subscriptions.Client(), "other", "/id")
	for name, want := range map[string]string{
		"other":  `subscriptions container "other" is partitioned by /id; create it with partition key /player`,
		"absent": `read subscriptions container: `,
	} {
		w.settings.SubscriptionsContainerName = name
		w.settings.KeyPrefix = name
		w.open()
		w.played("ada 100")
		if _, err := w.play("bob 120"); err == nil || !strings.Contains(err.Error(), `notify player "ada": `+want) {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
}

func TestManyFailuresAreOneError(t *testing.T) {
	w := newWorld(t, nil)
	w.subscribe("ada", "bob", "cid")
	w.played("ada 100", "bob 90", "cid 80")
	for _, device := range []string{"ada 1", "cid 1"} {
		w.answer(device, pushservice.Answer{Status: 502})
	}
	received, err := w.play("dan 200")
	expect(t, received, "bob 1: dan 200 > 90")
	if err == nil || !strings.HasPrefix(err.Error(), "2 of 3 players could not be notified: notify player ") {
		t.Errorf("error is %v", err)
	}
}

// A score whose shortest form has an exponent is compared as a number.
func TestLargeScores(t *testing.T) {
	eachRedis(t, func(t *testing.T, w *world) {
		w.subscribe("ada", "bob")
		w.played("ada 999999.5", "bob 1000000")
		expect(t, w.played("cid 1e20"), "ada 1: cid 1e+20 > 999999.5", "bob 1: cid 1e+20 > 1e+06")
	})
}
