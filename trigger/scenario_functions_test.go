package trigger

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

// brokenAndHealthy makes a host with a function whose container does not exist and
// one that works.
func (w *world) brokenAndHealthy() *Host {
	client := w.client()
	h, err := New(client.Container("db", "leases"), []Function{
		{FeedSource: FeedSource{Name: "broken", Container: client.Container("db", "missing"), StartFrom: FromBeginning()}, Handler: w.recorder("a")},
		{FeedSource: FeedSource{Name: "test", Container: client.Container("db", "items"), StartFrom: FromBeginning()}, Handler: w.recorder("a")},
	}, &Options{Owner: "a", Logger: slog.New(slog.DiscardHandler)})
	must(w.t, err)
	return h
}

func TestFatalErrorEndsOneFunctionAlone(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		h := w.brokenAndHealthy()
		stop := w.startHost(h)
		w.writeMany("doc", 5)
		time.Sleep(10 * time.Minute)
		w.checkComplete(0)
		status := h.Status().Functions
		if !strings.Contains(status[0].Problem, "missing") || status[1].Problem != "" {
			t.Errorf("problems %q and %q", status[0].Problem, status[1].Problem)
		}
		stop() // in good order, although one function is ended
		stop = w.startHost(h)
		must(t, w.client().CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
			ID: "missing", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/player"}},
		}))
		time.Sleep(time.Minute)
		_, err := w.client().Container("db", "missing").Create(t.Context(), cosmos.NewPartitionKey("p"), document{ID: "late", Player: "p", Version: 1})
		must(t, err)
		time.Sleep(time.Minute)
		if status := h.Status().Functions[0]; status.Problem != "" || len(status.Ranges) != 1 || status.Ranges[0].Changes != 1 {
			t.Errorf("status after the container was created: %+v", status)
		}
		stop()
	})
}

func TestRunFailsWhenAllFunctionsHaveFailedForAMinute(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		client := w.client()
		h, err := New(client.Container("db", "leases"), []Function{
			{FeedSource: FeedSource{Name: "one", Container: client.Container("db", "missing")}, Handler: w.recorder("a")},
			{FeedSource: FeedSource{Name: "two", Container: client.Container("db", "absent")}, Handler: w.recorder("a")},
		}, &Options{Owner: "a", Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		began := time.Now()
		err = h.Run(t.Context())
		took := time.Since(began)
		if err == nil || !strings.Contains(err.Error(), "missing") || !strings.Contains(err.Error(), "absent") {
			t.Errorf("run: %v", err)
		}
		if took < time.Minute || took > 2*time.Minute || errors.Is(err, errStopping) {
			t.Errorf("Run returned after %v: %v", took, err)
		}
	})
}
