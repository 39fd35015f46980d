package trigger

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// The account key is rotated while a host runs. The function says so at once, and after a
// minute Run ends with an error that names the account.
func TestRotatedKeyEndsRun(t *testing.T) {
	for name, path := range map[string]string{
		"both accounts": "", "monitored account": "/colls/items", "lease account": "/colls/leases", "feed reads": "/colls/items/docs$",
	} {
		for _, delay := range []time.Duration{30 * time.Second, 43 * time.Second, 10 * time.Minute} {
			t.Run(name+" after "+delay.String(), func(t *testing.T) {
				inWorld(t, 4, func(t *testing.T, w *world) {
					w.writeMany("doc", 40)
					h := w.host("a", w.recorder("a"), withoutLogger)
					done := make(chan error, 1)
					ctx, cancel := context.WithTimeout(t.Context(), delay+5*time.Minute)
					defer cancel()
					go func() { done <- h.Run(ctx) }()
					time.Sleep(delay)
					rotated := time.Now()
					w.account.Inject(emulator.Fault{Path: path, Status: http.StatusUnauthorized})
					time.Sleep(20 * time.Second)
					if p := h.Status().Functions[0].Problem; !strings.Contains(p, w.account.Endpoint()) || !strings.Contains(p, "401") {
						t.Errorf("problem after 20 s: %q", p)
					}
					err := <-done
					var refused *RefusedError
					if !errors.As(err, &refused) || refused.Account != w.account.Endpoint() || !cosmos.IsUnauthorized(refused) ||
						!strings.Contains(refused.Error(), "account "+w.account.Endpoint()+" refuses") {
						t.Errorf("Run returned %v", err)
					}
					if took := time.Since(rotated); took < time.Minute || took > 90*time.Second {
						t.Errorf("Run returned after %v", took)
					}
				})
			})
		}
	}
}

// A refusal of less than a minute ends nothing, however often it happens.
func TestShortRefusalDoesNotEndRun(t *testing.T) {
	for name, fault := range map[string]emulator.Fault{
		"both accounts":     {},
		"monitored account": {Path: "/colls/items"},
		"lease account":     {Path: "/colls/leases"},
	} {
		for _, lasting := range []time.Duration{10 * time.Second, 40 * time.Second, 59 * time.Second} {
			t.Run(name+" for "+lasting.String(), func(t *testing.T) {
				inWorld(t, 4, func(t *testing.T, w *world) {
					h := w.host("a", w.recorder("a"), withoutLogger)
					stop := w.startHost(h)
					for i := range 3 {
						time.Sleep(2*time.Minute + time.Duration(i)*7*time.Second)
						fault.Status = http.StatusUnauthorized
						repair := w.account.Inject(fault)
						time.Sleep(lasting)
						repair()
						w.writeMany("doc", 20)
					}
					time.Sleep(2 * time.Minute)
					if f := h.Status().Functions[0]; f.Problem != "" || f.Leases.Held != 4 {
						t.Errorf("status: %+v", f)
					}
					w.checkComplete(0)
					stop()
				})
			})
		}
	}
}

// Only one of two functions is refused: it says so, and the other one delivers.
func TestRefusedFunctionDoesNotEndOthers(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		must(t, w.client().CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
			ID: "other", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/player"}},
		}))
		h := w.hostOf(t, Options{}, Function{FeedSource: FeedSource{Name: "one"}, Handler: w.recorder("a")},
			Function{FeedSource: FeedSource{Name: "two", Container: w.client().Container("db", "other")}, Handler: func(context.Context, Batch) error { return nil }})
		stop := w.startHost(h)
		time.Sleep(time.Minute)
		repair := w.account.Inject(emulator.Fault{Path: "/colls/other", Status: http.StatusUnauthorized})
		time.Sleep(10 * time.Minute)
		w.writeMany("doc", 20)
		time.Sleep(10 * time.Second)
		w.checkComplete(0)
		if f := h.Status().Functions; f[0].Problem != "" || !strings.Contains(f[1].Problem, "refuses the credential") {
			t.Errorf("problems %q, %q", f[0].Problem, f[1].Problem)
		}
		repair()
		time.Sleep(time.Minute)
		if p := h.Status().Functions[1].Problem; p != "" {
			t.Errorf("problem %q after the repair", p)
		}
		stop()
	})
}

// A host that was refused has nothing to read any more, as an operator has paused its
// range. It learns that the account accepts its credential again.
func TestIdleHostForgetsRefusal(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var refused atomic.Bool
		network := hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			if !refused.Load() || !strings.Contains(r.URL.Path, "/colls/items") {
				return nil, nil, false
			}
			return &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{}, Request: r, Body: http.NoBody}, nil, true
		}}
		h := w.hostOn(network, "a", w.recorder("a"), withoutLogger)
		stop := w.startHost(h)
		time.Sleep(time.Minute)
		refused.Store(true)
		time.Sleep(20 * time.Second)
		c := w.control(nil)
		plan, err := c.PlanPause(t.Context(), "repair")
		w.apply(c, plan, err)
		time.Sleep(35 * time.Second)
		if p := h.Status().Functions[0].Problem; !strings.Contains(p, "refuses the credential") {
			t.Errorf("problem %q", p)
		}
		refused.Store(false)
		time.Sleep(2 * time.Minute)
		if p := h.Status().Functions[0].Problem; p != "" {
			t.Errorf("problem %q after the repair", p)
		}
		stop()
	})
}
