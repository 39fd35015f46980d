package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"halley/handlers/outbound"
)

func TestOutcomesOfRequests(t *testing.T) {
	for _, test := range []struct {
		err  error
		want SinkOutcome
	}{
		{nil, SinkOK},
		{errors.New("refused"), SinkError},
		{fmt.Errorf("post: %w", &outbound.StatusError{Status: http.StatusTooManyRequests}), SinkThrottled},
		{&outbound.StatusError{Status: http.StatusInternalServerError}, SinkError},
		{fmt.Errorf("write: %w", context.DeadlineExceeded), SinkTimeout},
		{context.Canceled, SinkError},
	} {
		if got := outcomeOf(test.err); got != test.want {
			t.Errorf("outcome of %v is %s, want %s", test.err, got, test.want)
		}
	}
}

func TestMeterTellsEachUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var uses []SinkUse
		m := Env{Measure: func(u SinkUse) { uses = append(uses, u) }}.Meter("redis")
		began := time.Now()
		time.Sleep(30 * time.Millisecond)
		m.Ended(began, nil)
		m.Wrote(7)
		m.Retried()
		want := []SinkUse{{Sink: "redis"}, {Sink: "redis", Outcome: SinkOK, Duration: 30 * time.Millisecond}, {Sink: "redis", Rows: 7}, {Sink: "redis", Retries: 1}}
		if !slices.Equal(uses, want) {
			t.Errorf("told %v, want %v", uses, want)
		}
	})
}

func TestHandlerOutsideOfAppMeasuresNothing(t *testing.T) {
	m := Env{}.Meter("redis")
	m.Ended(time.Now(), nil)
	m.Wrote(1)
	m.Retried()
	if next := http.DefaultTransport; m.Transport(next) != next {
		t.Error("the transport is another")
	}
}

func TestTransportMeasuresAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.WriteHeader(status)
	}))
	var got []SinkOutcome
	m := Env{Measure: func(u SinkUse) { got = append(got, u.Outcome) }}.Meter("webhook")
	inner := &http.Transport{}
	client := &http.Client{Transport: m.Transport(inner)}
	for _, status := range []int{200, 204, 404, 409, 412, 429, 503, 500} {
		response, err := client.Get(fmt.Sprintf("%s/%d", server.URL, status))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	server.Close() // blocks until no connection is active
	client.CloseIdleConnections()
	if _, err := client.Get(server.URL); err == nil {
		t.Error("the server is closed")
	}
	want := []SinkOutcome{"", SinkOK, SinkOK, SinkError, SinkConflict, SinkConflict, SinkThrottled, SinkThrottled, SinkError, SinkError}
	if !slices.Equal(got, want) {
		t.Errorf("outcomes %q, want %q", got, want)
	}
}
