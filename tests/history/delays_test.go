package history

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var poisoned = Limits{
	Expiration: time.Hour, Attempts: 3,
	Poison: Poison{Call: 50 * time.Millisecond, RetryMin: 100 * time.Millisecond, RetryMax: 30 * time.Second, BatchItems: 100, IsPresent: true},
}

// poisonStory is a range with one poison change, key "bad", and good changes, each
// with its own key.
type poisonStory struct {
	*story
	good int
	lsn  int64
}

func newPoisonStory() *poisonStory {
	p := &poisonStory{story: pair()}
	p.add(Event{Kind: Write, Key: "bad", Seq: 1, ID: "bad", LSN: 1, Hash: "80"})
	p.lsn = 1
	p.readPage()
	return p
}

func (p *poisonStory) readPage() {
	p.now = p.now.Add(-time.Second)
	p.add(Event{Kind: Reading, Host: "x", Range: "0", Position: p.lsn})
}

// call is a handler call with one change, which takes 40 ms.
func (p *poisonStory) call(key string, lsn int64, v Verdict) {
	p.calls++
	p.now = p.now.Add(-time.Second)
	p.add(Event{Kind: Delivery, Key: key, Seq: 1, ID: key, LSN: lsn, Host: "x", Range: "0", Epoch: 1, Attempt: 1, Call: p.calls})
	p.now = p.now.Add(40*time.Millisecond - time.Second)
	p.end("x", v)
}

// fails adds an attempt of the poison change.
func (p *poisonStory) fails() { p.call("bad", 1, Failed) }

// deadLetter ends the poison change.
func (p *poisonStory) deadLetter() {
	p.now = p.now.Add(-time.Second)
	p.add(Event{Kind: End, Verdict: DeadLettered, Range: "0", Epoch: 1, Failed: []Ref{{"bad", 1}}, Attempt: 3})
}

// reads adds a good change and its page, and returns its delivery.
func (p *poisonStory) reads() (deliver func()) {
	p.good++
	p.lsn++
	key, lsn := fmt.Sprint("good", p.good), p.lsn
	p.now = p.now.Add(-time.Second)
	p.add(Event{Kind: Write, Key: key, Seq: 1, ID: key, LSN: lsn, Hash: "80"})
	p.readPage()
	return func() { p.call(key, lsn, Handled) }
}

func TestDelaysOfOtherKeys(t *testing.T) {
	for _, test := range []struct {
		name string
		tell func(p *poisonStory)
		want []Rule
	}{
		{"delivered between two attempts", func(p *poisonStory) {
			p.fails()
			good := p.reads()
			p.fails()
			good()
			p.fails()
			p.deadLetter()
		}, nil},
		{"delivered after the wait", func(p *poisonStory) {
			p.fails()
			good := p.reads()
			p.wait(200 * time.Millisecond)
			p.fails()
			good()
			p.fails()
			p.deadLetter()
		}, []Rule{OtherKeysPrompt}},
		{"delivered after several retries", func(p *poisonStory) {
			p.fails()
			good := p.reads()
			second := p.reads()
			second()
			for range 2 {
				p.fails()
			}
			good()
			p.fails()
			p.deadLetter()
		}, nil},
		{"delivered behind an earlier change of its own key", func(p *poisonStory) {
			p.fails()
			p.add(Event{Kind: Write, Key: "good1", Seq: 1, ID: "one", LSN: 2, Hash: "80"})
			p.lsn, p.good = 2, 1
			p.readPage()
			p.calls++
			p.wait(-time.Second).add(Event{Kind: Delivery, Key: "good1", Seq: 1, ID: "one", LSN: 2, Host: "x", Range: "0", Epoch: 1, Attempt: 1, Call: p.calls})
			p.end("x", Failed) // with the poison
			p.add(Event{Kind: Write, Key: "good1", Seq: 2, ID: "two", LSN: 3, Hash: "80"})
			p.lsn = 3
			p.readPage()
			p.wait(time.Second)
			p.fails()
			for seq := int64(1); seq <= 2; seq++ {
				p.calls++
				p.add(Event{Kind: Delivery, Key: "good1", Seq: seq, ID: []string{"one", "two"}[seq-1], LSN: seq + 1, Host: "x", Range: "0", Epoch: 1, Attempt: 2, Call: p.calls})
				p.end("x", Handled)
			}
			p.deadLetter()
		}, []Rule{PoisonDecided}},
		{"no other key waits", func(p *poisonStory) {
			for range 3 {
				p.fails()
				p.wait(200 * time.Millisecond)
			}
			p.deadLetter()
			p.reads()()
		}, nil},
		{"decided late", func(p *poisonStory) {
			for range 3 {
				p.fails()
				p.wait(2 * time.Second)
			}
			p.deadLetter()
		}, []Rule{PoisonDecided}},
		{"many short delays", func(p *poisonStory) {
			for range enoughSamples {
				good := p.reads()
				p.fails()
				good()
			}
			p.deadLetter()
		}, []Rule{PoisonDecided}},
		{"the failing key itself is handled late", func(p *poisonStory) {
			for range enoughSamples {
				good := p.reads()
				p.fails()
				good()
			}
			first := p.lsn + 1
			for seq := range int64(4) {
				p.lsn++
				p.add(Event{Kind: Write, Key: "bad", Seq: 2 + seq, ID: "bad", LSN: first + seq, Hash: "80"})
			}
			p.readPage()
			p.fails()
			p.wait(20 * time.Second)
			p.call("bad", 1, Handled)
			for seq := range int64(4) {
				p.calls++
				p.add(Event{Kind: Delivery, Key: "bad", Seq: 2 + seq, ID: "bad", LSN: first + seq, Host: "x", Range: "0", Epoch: 1, Attempt: 1, Call: p.calls})
				p.end("x", Handled)
			}
		}, nil},
		{"many long delays", func(p *poisonStory) {
			for range enoughSamples {
				good := p.reads()
				p.fails()
				p.fails()
				p.fails()
				p.wait(2 * time.Second)
				good()
			}
			p.deadLetter()
		}, []Rule{OtherKeysPrompt, PoisonDecided}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPoisonStory()
			test.tell(p)
			r := poisoned.Check(p.events)
			got := slices.Compact(rulesOf(r))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s%v", diff, r.Violations)
			}
		})
	}
}

func TestDelaysAreMeasured(t *testing.T) {
	p := newPoisonStory()
	for i := range 100 {
		good := p.reads()
		p.fails()
		p.wait(time.Duration(i) * time.Millisecond)
		good()
	}
	p.deadLetter()
	got := poisoned.Check(p.events).OtherKeys
	want := Delays{Samples: 100, P50: 129 * time.Millisecond, P99: 178 * time.Millisecond, Max: 179 * time.Millisecond}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
