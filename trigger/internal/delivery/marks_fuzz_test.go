package delivery

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/finished"
)

// FuzzFinishedFromOwnerToOwner has one owner after another read a feed from the position
// that the one before has saved, and wants each change that is passed over to be durable in
// the sink, and each acknowledged one as well. changes is as in [FuzzAcknowledgedPrefix].
// Each byte of steps is a step: its lower bits draw a change, its upper ones what is done:
// a page is taken, the change is finished or set aside, the lease is written, the owner
// ends and the next one begins. With manual checkpoints a finished change is durable once a
// request covers it, and the sink of an owner that ends forgets it before.
func FuzzFinishedFromOwnerToOwner(f *testing.F) {
	f.Add([]byte{1, 1, 1, 0x81, 1}, []byte{0, 0, 0x40, 0x21, 0x60, 0x80, 0, 0x60, 0x80, 0, 0}, false)
	f.Add([]byte{1, 1, 1, 1, 0x81, 1, 1, 0x81, 1, 1, 0x81, 1}, []byte{0, 0x40, 0x21, 0x22, 0x23, 0, 0x60, 0x80, 0, 0x21, 0x60, 0x80, 0, 0, 0, 0x60, 0x80, 0, 0, 0x20, 0x20}, false)
	f.Add([]byte{1, 1, 1, 1, 0x81, 1, 1, 0x81, 1, 1, 0x81, 1}, []byte{0, 0x40, 0x21, 0x20, 0xa0, 0, 0x20, 0x21, 0xa1, 0x60, 0x80, 0, 0, 0x41, 0x21, 0xa0, 0x60, 0x80, 0}, true)
	f.Fuzz(func(t *testing.T, changes, steps []byte, manual bool) {
		o := &fuzzedOwners{t: t, manual: manual, pages: pagesOf(changes, 0), durable: map[string]bool{}}
		o.begin()
		for _, step := range steps {
			o.take(int(step&0x1f), step>>5)
		}
	})
}

// fuzzedOwners are the state of [FuzzFinishedFromOwnerToOwner].
type fuzzedOwners struct {
	t       *testing.T
	manual  bool
	pages   []*feed.Page
	durable map[string]bool // by the place of a change in the feed

	position, value string // of the lease

	progress *progress
	unread   []*feed.Page
	todo     []*Item  // unfinished changes of the owner
	buffered []string // changes that the sink has, and that no request covers
	answered int64
}

// begin begins an owner.
func (o *fuzzedOwners) begin() {
	binding := finished.Binding{Continuation: o.position}
	o.progress = newProgress(Config{
		Continuation: o.position, Finished: binding, SavedFinished: o.value, KeyPaths: []string{"/pk"}, Checkpoint: Checkpoint{Manual: o.manual},
	}, func(string, time.Time) {})
	o.unread, o.todo, o.buffered, o.answered = nil, nil, nil, 0
	for number, page := range o.pages {
		unread := &feed.Page{Continuation: page.Continuation}
		for i, item := range page.Items {
			item.ID = fmt.Sprint(number, "/", i)
			if item.LSN > feed.LSNOf(o.position) {
				unread.Items = append(unread.Items, item)
			} else if !o.durable[item.ID] {
				o.t.Fatalf("%s is acknowledged, and %s, LSN %d, is not durable", o.position, item.ID, item.LSN)
			}
		}
		if len(unread.Items) > 0 {
			o.unread = append(o.unread, unread)
		}
	}
}

// take takes one step.
func (o *fuzzedOwners) take(draw int, step byte) {
	if len(o.todo) == 0 && (step == 1 || step == 2) {
		return
	}
	switch step {
	case 0:
		o.readPage()
	case 1:
		o.finish(draw % len(o.todo))
	case 2:
		c := &o.todo[draw%len(o.todo)]
		item := **c // its page may be used again
		kept, _, _, _ := o.progress.setAside([]*Item{*c})
		*c = &item
		*c = kept[0]
	case 3:
		o.position, o.value = o.progress.snapshot(0)
	case 4:
		o.begin()
	case 5:
		o.request()
	}
}

func (o *fuzzedOwners) readPage() {
	if len(o.unread) == 0 {
		return
	}
	page := o.unread[0]
	o.unread = o.unread[1:]
	var passed []int
	for i := range page.Items {
		item := &page.Items[i]
		if !o.progress.isInherited(item) {
			passed = append(passed, i)
		} else if !o.durable[item.ID] {
			o.t.Fatalf("%s, LSN %d, is passed over and not durable; the lease says %s", item.ID, item.LSN, o.value)
		}
	}
	items := o.progress.addWhole(page, passed)
	for i := range items {
		o.todo = append(o.todo, &items[i])
	}
	o.progress.finishItems(nil)
}

func (o *fuzzedOwners) finish(i int) {
	c := o.todo[i]
	o.todo = slices.Delete(o.todo, i, i+1)
	if o.manual {
		o.answered++
		o.progress.answerCall([]*Item{c}, Verdict{Answered: o.answered})
		o.buffered = append(o.buffered, c.ID)
	} else {
		o.durable[c.ID] = true
	}
	o.progress.finishItems([]*Item{c})
}

// request makes all that the sink has durable.
func (o *fuzzedOwners) request() {
	if !o.manual {
		return
	}
	for _, id := range o.buffered {
		o.durable[id] = true
	}
	o.buffered = nil
	o.progress.answerCall(nil, Verdict{Requested: o.answered + 1})
	o.progress.finishItems(nil)
}

// A value that belongs to another continuation, epoch, mode or filter, or to a merged range,
// is void.
func TestForeignValueIsVoid(t *testing.T) {
	binding := finished.Binding{Continuation: `"1"`, Epoch: 2, Mode: "latest", Filter: "f"}
	saved := finished.Value{Binding: binding, Reached: 9}.Encode()
	for name, change := range map[string]func(c *Config){
		"epoch":        func(c *Config) { c.Finished.Epoch = 3 },
		"mode":         func(c *Config) { c.Finished.Mode = "all" },
		"phase":        func(c *Config) { c.Finished.Phase = "copy" },
		"filter":       func(c *Config) { c.Finished.Filter = "" },
		"continuation": func(c *Config) { c.Finished.Continuation = `"2"` },
		"merged":       func(c *Config) { c.MergedRange = true },
		"":             func(*Config) {},
	} {
		c := Config{Continuation: `"1"`, Finished: binding, SavedFinished: saved}
		change(&c)
		p := newProgress(c, nil)
		if got := p.isInherited(&cosmos.Item{LSN: 5, Document: []byte(`{"pk":1}`)}); got != (name == "") {
			t.Errorf("%s: passed over: %v", name, got)
		}
	}
}

// At most 64 keys have marks. With more, Q stays where it was.
func TestMarksAreFew(t *testing.T) {
	p := newProgress(Config{Continuation: `"1"`, Finished: finished.Binding{Continuation: `"1"`}, KeyPaths: []string{"/pk"}}, func(string, time.Time) {})
	add := func(lsn int64, key int) *Item {
		items := p.addWhole(&feed.Page{Items: []cosmos.Item{{LSN: lsn, PartitionKey: fmt.Appendf(nil, "[%d]", key)}}, Continuation: feed.QuotedLSN(lsn)}, []int{0})
		kept, _, _, _ := p.setAside([]*Item{&items[0]})
		return kept[0]
	}
	var waiting []*Item
	for i := range finished.MaxMarks + 1 {
		waiting = append(waiting, add(int64(i+2), i))
		_, value := p.snapshot(0)
		if v, ok := finished.Parse(value); !ok || len(v.Marks) != min(i+1, finished.MaxMarks) || v.Reached != int64(2+min(i, finished.MaxMarks-1)) {
			t.Fatalf("with %d keys: %v, %d marks up to %d", i+1, ok, len(v.Marks), v.Reached)
		}
	}
	p.finishItems(waiting[5:6])
	_, value := p.snapshot(0)
	if v, ok := finished.Parse(value); !ok || len(v.Marks) != finished.MaxMarks || v.Reached != finished.MaxMarks+2 {
		t.Errorf("after one key: %v, %d marks up to %d", ok, len(v.Marks), v.Reached)
	}
}
