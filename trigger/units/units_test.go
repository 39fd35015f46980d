package units

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Meter
		var none *Meter
		none.Add(Polls, 1)
		if h, w := m.Measured(); h != (Hourly{}) || w != 0 {
			t.Errorf("nothing was counted, and %v was measured", h)
		}
		m.Add(Pages, 30)
		if h, _ := m.Measured(); h.Pages != 30 {
			t.Errorf("30 units in the first minute are %v, want 30", h.Pages)
		}
		time.Sleep(20 * time.Minute)
		if h, _ := m.Measured(); h.Pages < 85 || h.Pages > 95 {
			t.Errorf("30 units in 20 minutes are %v an hour, want 90", h.Pages)
		}
		for range 6 * 60 {
			time.Sleep(10 * time.Second)
			m.Add(Polls, 1)
			m.Add(LeaseWrites, 10)
		}
		for _, wrong := range []float64{-1, math.NaN(), math.Inf(1), 1e7} {
			m.Add(Polls, wrong)
		}
		h, write := m.Measured()
		if h.Pages != 0 || math.Abs(h.Polls/360-1) > 0.02 || math.Abs(h.LeaseWrites/3600-1) > 0.02 || write != 10 {
			t.Errorf("measured %v, %v a lease write; want 360 for polls, 3600 for lease writes, 10", h, write)
		}
		time.Sleep(30 * time.Minute)
		if h, _ := m.Measured(); math.Abs(h.Polls/180-1) > 0.04 {
			t.Errorf("after half an hour of silence %v for polls, want 180", h.Polls)
		}
		time.Sleep(2 * time.Hour)
		if h, _ := m.Measured(); h.Total() != 0 {
			t.Errorf("after hours of silence %v", h)
		}
	})
}

func TestHostText(t *testing.T) {
	h := Host{"ABCDEF", Hourly{12, 720, 3600, 853}, 15.97}
	if got, ok := ParseHost(h.String()); !ok || got != h {
		t.Errorf("%q is read as %+v, %v", h, got, ok)
	}
	for _, text := range []string{"", "a", "a 1 2 3 4", "a 1 2 3 4 5 6", "a 1 2 3 4 x", "a 1 2 3 -4 5", "a NaN 2 3 4 5", "a 1e300 2 3 4 5"} {
		if got, ok := ParseHost(text); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

func TestPrices(t *testing.T) {
	const text = "provisioned=0.008,autoscale=0.012,serverless=0.25"
	p, err := ParsePrices(text)
	if err != nil || p.String() != text {
		t.Errorf("%q is read as %q, %v", text, p, err)
	}
	// 36,000 units an hour are 10 a second: a tenth of 100, for 730 hours.
	m := p.Month(Hourly{Pages: 36000})
	if want := "26.3 million request units (provisioned 0.58, autoscale 0.88, serverless 6.57)"; m.String() != want {
		t.Errorf("%s, want %s", m, want)
	}
	for text, says := range map[string]string{"": "give prices as", "hourly=1": "give prices as", "serverless": "above 0", "serverless=-1": "above 0", "serverless=NaN": "above 0", "serverless=1,": "give prices as"} {
		if _, err := ParsePrices(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}
