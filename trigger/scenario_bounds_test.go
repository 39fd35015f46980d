package trigger

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/leases"
)

// A refusal may ask for any wait: after a minute the request is sent again.
func TestLongRetryAfterIsBoundedToAMinute(t *testing.T) {
	for name, header := range map[string][2]string{
		"6 h": {"X-Ms-Retry-After-Ms", "21600000"}, "270 h": {"X-Ms-Retry-After-Ms", "972000000"},
		"1e300 ms": {"X-Ms-Retry-After-Ms", "1e300"}, "a day, of a proxy": {"Retry-After", "86400"},
	} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			var refusing atomic.Bool
			transport := hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
				if r.Header.Get("A-Im") == "" || !refusing.Swap(false) { // one refusal is enough
					return nil, nil, false
				}
				return &http.Response{StatusCode: 429, Header: http.Header{header[0]: {header[1]}}, Body: http.NoBody, Request: r}, nil, true
			}}
			stop := w.startHost(w.hostOn(transport, "a", w.recorder("a"), withoutLogger))
			time.Sleep(time.Minute)
			refusing.Store(true)
			time.Sleep(6 * time.Second)
			w.writeMany("doc", 5)
			time.Sleep(50 * time.Second)
			if n := w.deliveryCount(); n > 0 {
				t.Errorf("%s: %d delivered although the service asked for a wait", name, n)
			}
			time.Sleep(15 * time.Second)
			if n := w.deliveryCount(); n != 5 {
				t.Errorf("%s: %d delivered after a minute", name, n)
			}
			stop()
		})
	}
}

// A charge that cannot be does not hold the range back, and the log says so once.
func TestAbsurdChargeIsIgnored(t *testing.T) {
	for _, charge := range []string{"1e308", "1000001", "NaN", "Inf", "-1e9"} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			logger, logged := recordLog(slog.LevelWarn)
			transport := hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
				if r.Header.Get("A-Im") == "" {
					return nil, nil, false
				}
				resp, err := w.account.Do(r)
				if err == nil {
					resp.Header.Set("X-Ms-Request-Charge", charge)
				}
				return resp, err, true
			}}
			stop := w.startHost(w.hostOn(transport, "a", w.recorder("a"), func(f *Function, o *Options) { f.ReadRequestUnits, o.Logger = 10, logger }))
			for range 20 {
				w.writeMany("doc", 3)
				time.Sleep(10 * time.Second)
			}
			stop()
			w.checkComplete(0)
			if n := logged.FilterMessageSnippet("request charge ignored").Len(); n != 1 {
				t.Errorf("charge %s: logged %d times", charge, n)
			}
		})
	}
}

// Every setting of time is bounded to a year, and the error names the setting.
func TestDurationsAboveAYearAreRefused(t *testing.T) {
	const year = 365 * 24 * time.Hour
	refused := func(value reflect.Value, prefix string, validate func() []Problem) {
		var try func(value reflect.Value, name string)
		try = func(value reflect.Value, name string) {
			for i := range value.NumField() {
				field, fieldName := value.Field(i), name+value.Type().Field(i).Name
				switch {
				case value.Type().Field(i).Anonymous:
					try(field, name)
				case value.Type().Field(i).IsExported() && field.Kind() == reflect.Struct:
					try(field, fieldName+".")
				}
				if field.Type() != reflect.TypeFor[time.Duration]() {
					continue
				}
				for _, d := range []time.Duration{year + 1, math.MaxInt64} {
					field.SetInt(int64(d))
					if !strings.Contains(fmt.Sprint(validate()), fmt.Sprintf("%s=%v: must not be more than a year", fieldName, d)) {
						t.Errorf("%s%s of %v: %v", prefix, fieldName, d, validate())
					}
				}
				field.SetInt(0)
			}
		}
		try(value, "")
	}
	var f Function
	refused(reflect.ValueOf(&f).Elem(), "Function.", func() []Problem { return f.Validate() })
	var o Options
	refused(reflect.ValueOf(&o).Elem(), "Options.", func() []Problem { return o.Validate() })
	o = Options{LeaseExpirationInterval: year, LeaseAcquireInterval: year / 3, LeaseRenewInterval: year / 3, FeedPollDelay: year, StopGrace: year}
	if problems := o.Validate(); len(problems) > 0 {
		t.Errorf("a year is refused: %v", problems)
	}
}

// A lease whose owner announces an endless expiration is not free.
func TestEndlessExpirationDoesNotFreeTheLease(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(time.Minute)
		stop()
		w.editLease("0", func(document map[string]any) {
			document["Owner"] = "other"
			setLeaseProperty(document, "halley.incarnation", "other/x")
			setLeaseProperty(document, "halley.expiration", time.Duration(math.MaxInt64).String())
		})
		stop = w.startHost(w.host("b", w.recorder("b")))
		time.Sleep(time.Hour)
		if owner := w.leaseDocuments()["0"].owner; owner != "other" {
			t.Errorf("lease taken by %q", owner)
		}
		stop()
	})
}

// A lease at the largest epoch is not acquired: its next epoch would be negative.
func TestEpochNeverBecomesNegative(t *testing.T) {
	for _, epoch := range []string{fmt.Sprint(int64(math.MaxInt64)), "9223372036854775808", "4611686018427387904"} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			stop := w.startHost(w.host("a", w.recorder("a")))
			time.Sleep(time.Minute)
			stop()
			w.editLease("0", func(document map[string]any) { setLeaseProperty(document, "halley.epoch", epoch) })
			h := w.host("b", w.recorder("b"), withoutLogger)
			stop = w.startHost(h)
			w.writeMany("doc", 3)
			time.Sleep(5 * time.Minute)
			if n := w.deliveryCount(); n > 0 {
				t.Errorf("epoch %s: %d delivered in epoch %d", epoch, n, w.delivered[0].epoch)
			}
			stop()
		})
	}
}

// Functions that are not filled in are refused with an error, and nothing panics.
func TestZeroFunctionIsRefused(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		ctx, handler := t.Context(), w.recorder("a")
		for name, f := range map[string]Function{"zero": {}, "without container": {FeedSource: FeedSource{Name: "test"}}, "without name": {FeedSource: FeedSource{Container: w.items}}} {
			source := f.DeadLetterSource()
			_, lagErr := EstimateLag(ctx, w.leases, f.FeedSource)
			_, replayErr := Replay(ctx, &memoryStore{}, source, handler, nil)
			_, controlErr := leases.NewControl(w.leases, leaseSource(f), nil)
			_, hostErr := New(w.leases, []Function{f}, nil)
			for call, err := range map[string]error{"EstimateLag": lagErr, "Replay": replayErr, "NewControl": controlErr, "New": hostErr} {
				if err == nil || !strings.Contains(err.Error(), "ontainer") && !strings.Contains(err.Error(), "Name") {
					t.Errorf("%s, %s: %v", name, call, err)
				}
			}
		}
		good := Function{FeedSource: FeedSource{Name: "test", Container: w.items}}
		if _, err := EstimateLag(ctx, nil, good.FeedSource); err == nil || !strings.Contains(err.Error(), "lease container") {
			t.Errorf("EstimateLag without lease container: %v", err)
		}
		if _, err := Replay(ctx, nil, good.DeadLetterSource(), handler, nil); err == nil {
			t.Error("Replay without store: no error")
		}
		if _, err := Replay(ctx, &memoryStore{}, good.DeadLetterSource(), nil, nil); err == nil {
			t.Error("Replay without handler: no error")
		}
	})
}

// editLease changes a lease document by hand.
func (w *world) editLease(token string, edit func(document map[string]any)) {
	w.t.Helper()
	id := w.leasePrefix() + ".." + token
	resp, err := w.leases.Read(w.t.Context(), id, cosmos.NewPartitionKey(id))
	must(w.t, err)
	document := map[string]any{}
	must(w.t, json.Unmarshal(resp.Body, &document))
	edit(document)
	_, err = w.leases.Upsert(w.t.Context(), cosmos.NewPartitionKey(id), document)
	must(w.t, err)
}

// setLeaseProperty is an edit that sets one of Halley's properties.
func setLeaseProperty(document map[string]any, name string, value any) {
	document["properties"].(map[string]any)[name] = value
}
