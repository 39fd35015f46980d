package outbound

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// refused returns the refusal in err.
func refused(t *testing.T, err error) *StatusError {
	t.Helper()
	var refusal *StatusError
	if !errors.As(err, &refusal) {
		t.Fatalf("error %v holds no StatusError", err)
	}
	return refusal
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tests := []struct {
			value string
			want  time.Duration
		}{
			{"", 0},
			{"17", 17 * time.Second},
			{"-5", 0},
			{"soon", 0},
			{"99999999999", 1 << 31 * time.Second},
			{time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), time.Minute},
			{time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat), 0},
		}
		for _, tt := range tests {
			if got := RetryAfter(http.Header{"Retry-After": {tt.value}}); got != tt.want {
				t.Errorf("Retry-After %q is %v, want %v", tt.value, got, tt.want)
			}
		}
	})
}

func TestPausesHoldBackRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Pauses{Longest: time.Minute}
		const a, b = "https://a", "https://b"
		p.Add(a, &StatusError{Status: 503})
		if err := p.check(a); err != nil {
			t.Errorf("pause without a time: %v", err)
		}
		p.Add(a, &StatusError{Status: 429, RetryAfter: 10 * time.Second})
		p.Add(b, &StatusError{Status: 429, RetryAfter: time.Hour})
		time.Sleep(4 * time.Second)
		if left := refused(t, p.check(a)).RetryAfter; left != 6*time.Second {
			t.Errorf("%v are left", left)
		}
		time.Sleep(6 * time.Second)
		if err := p.check(a); err != nil {
			t.Errorf("pause did not end: %v", err)
		}
		if err := p.check(b); err == nil {
			t.Error("the other pause ended")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		before := time.Now()
		if left := refused(t, p.Wait(ctx, b)).RetryAfter; left != 50*time.Second || time.Since(before) != 0 {
			t.Errorf("%v are left after %v: a rest that ends with ctx is not waited for", left, time.Since(before))
		}
		ended, end := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, end)
		if left := refused(t, p.Wait(ended, b)).RetryAfter; left != 50*time.Second || time.Since(before) != time.Second {
			t.Errorf("%v are left after %v: ctx did not end the wait", left, time.Since(before))
		}
		if err := p.Wait(t.Context(), b); err != nil || time.Since(before) != 50*time.Second { // b's pause was cut to a minute
			t.Errorf("waited for %v: %v", time.Since(before), err)
		}
		p.Add(a, &StatusError{Status: 429, RetryAfter: time.Nanosecond})
		time.Sleep(time.Second)
		p.Add(b, &StatusError{Status: 429, RetryAfter: time.Second})
		if len(p.until) != 1 {
			t.Errorf("%d pauses are kept", len(p.until))
		}
	})
}
