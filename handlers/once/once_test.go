package once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"halley/trigger"
	"halley/trigger/triggertest"
)

// feed is a model of the deliveries of one document: its versions, the current owner of
// its range, and former owners.
type feed struct {
	random      *rand.Rand
	allVersions bool
	rule        func(b trigger.Batch, stored map[Document]Position) ([]trigger.Change, map[Document]Position)

	versions   []trigger.Change
	lsn, clock int64
	owners     []*owner // the current one is the last
	checkpoint int      // of the lease, as an index of versions
	epoch      int64

	stored  map[Document]Position
	effects []int // indexes of versions, in the order of their effects
}

// owner has read a part of the feed, and delivers from it.
type owner struct {
	epoch   int64
	next    int       // index of the version to read next
	read    []version // and not handled
	handled int       // versions before it are handled
}

// version is a version as an owner has read it.
type version struct {
	index  int
	change trigger.Change
}

const modelDocument = `{"id":"d","key":"k","_etag":"\"e%d\"","n":%d}`

// write writes a version. In all-versions mode a transaction may write several, and may
// delete the document.
func (f *feed) write() {
	f.clock += f.random.Int64N(2)
	f.lsn += 1 + f.random.Int64N(3)
	for range 1 + f.random.IntN(2) {
		f.append()
		if !f.allVersions {
			break // the feed has only the last version of a transaction
		}
	}
}

func (f *feed) append() {
	n := len(f.versions)
	c := triggertest.Replace(fmt.Sprintf(modelDocument, n, n), `{"id":"d","key":"k"}`, "k")
	if f.allVersions && f.random.IntN(4) == 0 && n > 0 && f.versions[n-1].Document != nil {
		c = triggertest.Delete("d", "k")
		c.Previous = f.versions[n-1].Document
	}
	c.LSN, c.Time = f.lsn, time.Unix(f.clock, 0)
	f.versions = append(f.versions, c)
}

// readOn reads what the feed has for an owner.
func (f *feed) readOn(o *owner) {
	if f.allVersions {
		for ; o.next < len(f.versions) && f.random.IntN(4) > 0; o.next++ {
			o.read = append(o.read, version{o.next, f.versions[o.next]})
		}
		return
	}
	if o.next < len(f.versions) {
		last := len(f.versions) - 1
		o.read, o.next = append(o.read, version{last, f.versions[last]}), last+1
	}
}

// deliver calls the rule with some of the versions that an owner has read. The call may
// fail after its effects were written, and is then repeated.
func (f *feed) deliver(o *owner) {
	if len(o.read) == 0 {
		return
	}
	count := 1 + f.random.IntN(len(o.read))
	b := trigger.Batch{Epoch: o.epoch}
	for _, v := range o.read[:count] {
		b.Changes = append(b.Changes, v.change)
	}
	fresh, moved := f.rule(b, f.stored)
	for _, c := range fresh {
		f.effects = append(f.effects, slices.IndexFunc(f.versions, func(v trigger.Change) bool {
			return string(v.Document) == string(c.Document) && string(v.Previous) == string(c.Previous)
		}))
	}
	for document, p := range moved {
		f.stored[document] = p
	}
	if f.random.IntN(4) > 0 {
		o.handled = o.read[count-1].index + 1
		o.read = o.read[count:]
	}
}

func (f *feed) acquire() {
	f.epoch++
	f.owners = append(f.owners, &owner{epoch: f.epoch, next: f.checkpoint, handled: f.checkpoint})
}

// merge ends the range: its owners cannot read it any more. A merge takes some seconds.
func (f *feed) merge() {
	for _, o := range f.owners {
		o.next = math.MaxInt
	}
	f.clock++
	f.acquire()
}

func (f *feed) current() *owner { return f.owners[len(f.owners)-1] }

func (f *feed) step(trouble func(*feed)) {
	switch f.random.IntN(9) {
	case 0, 1:
		f.write()
	case 2:
		f.acquire()
	case 3:
		f.checkpoint = f.current().handled
	case 4:
		trouble(f)
	case 5, 6:
		f.readOn(f.owners[f.random.IntN(len(f.owners))])
	default:
		f.deliver(f.owners[f.random.IntN(len(f.owners))])
	}
}

// run plays a history and returns why effects did not happen exactly once, or "".
func (f *feed) run(trouble func(*feed)) string {
	f.stored = map[Document]Position{}
	f.acquire()
	for range 120 {
		f.step(trouble)
	}
	f.write()
	f.acquire()
	for f.current().handled < len(f.versions) {
		f.readOn(f.current())
		f.deliver(f.current())
	}
	return f.judge()
}

func (f *feed) judge() string {
	for i, n := range f.effects {
		if i > 0 && n <= f.effects[i-1] {
			return fmt.Sprintf("version %d took effect after version %d: %v", n, f.effects[i-1], f.effects)
		}
	}
	if last := len(f.versions) - 1; f.effects[len(f.effects)-1] != last {
		return fmt.Sprintf("version %d did not take effect: %v", last, f.effects)
	}
	if f.allVersions && len(f.effects) != len(f.versions) {
		return fmt.Sprintf("%d of %d versions took effect: %v", len(f.effects), len(f.versions), f.effects)
	}
	return ""
}

// Troubles besides redelivery and late deliveries.
var troubles = map[string]struct {
	allVersions bool
	happen      func(*feed)
}{
	"latest versions": {false, func(*feed) {}},
	"all versions":    {true, func(*feed) {}},
	"leases are lost and made again": {true, func(f *feed) {
		f.epoch, f.checkpoint = 0, 0
		f.acquire()
	}},
	"an operator moves the position back": {true, func(f *feed) {
		f.checkpoint = f.random.IntN(f.checkpoint + 1)
		f.acquire()
	}},
	"a merge begins at smaller LSNs": {false, func(f *feed) {
		f.lsn = f.lsn / 2
		f.merge()
	}},
	"a merge numbers versions again": {false, func(f *feed) {
		f.lsn += 10
		for i := range f.versions {
			f.versions[i].LSN += f.lsn
		}
		f.lsn *= 2
		f.merge()
	}},
}

const modelSeeds = 400

func TestEffectsHappenExactlyOnce(t *testing.T) {
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(modelSeeds) {
				f := &feed{random: rand.New(rand.NewPCG(seed, 1)), allVersions: trouble.allVersions, rule: Fresh}
				if failure := f.run(trouble.happen); failure != "" {
					t.Fatalf("seed %d: %s", seed, failure)
				}
			}
		})
	}
}

// wrongRules are rules with one mistake each.
var wrongRules = map[string]func(p, stored Position) bool{
	"no guard":   func(_, _ Position) bool { return true },
	"epoch only": func(p, stored Position) bool { return p.Epoch >= stored.Epoch },
	"epoch then LSN": func(p, stored Position) bool {
		return p.Epoch > stored.Epoch || p.Epoch == stored.Epoch && p.LSN > stored.LSN
	},
	"LSN only": func(p, stored Position) bool { return p.LSN > stored.LSN },
	"LSN, not smaller": func(p, stored Position) bool {
		return p.LSN >= stored.LSN
	},
	"version only": func(p, stored Position) bool { return !slices.Contains(stored.Versions, p.Versions[0]) },
	"smaller epochs refused": func(p, stored Position) bool {
		return p.Epoch >= stored.Epoch && p.After(stored)
	},
	"time ignored": func(p, stored Position) bool {
		return p.LSN >= stored.LSN && p.After(stored)
	},
}

func TestWrongRulesAreFound(t *testing.T) {
	for name, after := range wrongRules {
		t.Run(name, func(t *testing.T) {
			rule := func(b trigger.Batch, stored map[Document]Position) (fresh []trigger.Change, moved map[Document]Position) {
				moved = map[Document]Position{}
				for _, c := range b.Changes {
					d := DocumentOf(c)
					last, found := moved[d]
					if !found {
						last = stored[d]
					}
					if next := PositionOf(c, b.Epoch); last.isNew() || after(next, last) {
						fresh, moved[d] = append(fresh, c), next.join(last)
					}
				}
				return fresh, moved
			}
			for _, trouble := range troubles {
				for seed := range uint64(modelSeeds) {
					f := &feed{random: rand.New(rand.NewPCG(seed, 1)), allVersions: trouble.allVersions, rule: rule}
					if f.run(trouble.happen) != "" {
						return
					}
				}
			}
			t.Error("no trouble shows the mistake")
		})
	}
}

func TestDocumentsAreToldApart(t *testing.T) {
	seen := map[Document]int{}
	for i, c := range []trigger.Change{
		triggertest.Upsert(`{"id":"a"}`, "b"), triggertest.Upsert(`{"id":"a"}`, "c"), triggertest.Upsert(`{"id":"b"}`, "a"),
		triggertest.Upsert(`{"id":"a"}`), triggertest.Upsert(`{"id":"a"}`, "b", "c"),
	} {
		if other, found := seen[DocumentOf(c)]; found {
			t.Errorf("changes %d and %d are of one document", other, i)
		}
		seen[DocumentOf(c)] = i
	}
	deleted, written := triggertest.Delete("a", "b"), triggertest.Upsert(`{"id":"a"}`, "b")
	if DocumentOf(deleted) != DocumentOf(written) {
		t.Error("a delete is of another document")
	}
}

func TestLastVersionsAreKept(t *testing.T) {
	var changes []trigger.Change
	for _, document := range []string{`{"id":"a","n":1}`, `{"id":"b","n":2}`, `{"id":"a","n":3}`} {
		changes = append(changes, triggertest.Upsert(document))
	}
	var got []json.RawMessage
	for _, c := range Last(changes) {
		got = append(got, c.Document)
	}
	if fmt.Sprintf("%s", got) != `[{"id":"b","n":2} {"id":"a","n":3}]` {
		t.Errorf("kept %s", got)
	}
	if documents := Documents(trigger.NewBatch(changes...)); len(documents) != 2 {
		t.Errorf("%d documents", len(documents))
	}
}

// All-or-nothing effects are called again without the changes that they refuse.
func TestRefusedChangesAreLeftOut(t *testing.T) {
	var applied []string
	handler := func(refuse func(c trigger.Change) error) trigger.Handler {
		return func(_ context.Context, b trigger.Batch) error {
			applied = nil
			return Effects(b, func(b trigger.Batch) error {
				var ids []string
				for _, c := range b.Changes {
					if err := refuse(c); err != nil {
						return err
					}
					ids = append(ids, c.ID())
				}
				applied = ids
				return nil
			})
		}
	}
	errRefused := errors.New("refused")
	changes := []trigger.Change{triggertest.Upsert(`{"id":"a"}`), triggertest.Upsert(`{"id":"b"}`), triggertest.Upsert(`{"id":"c"}`), triggertest.Upsert(`{"id":"d"}`)}
	for name, test := range map[string]struct {
		refuse  func(c trigger.Change) error
		applied string
		verdict string
	}{
		"none": {func(trigger.Change) error { return nil }, "[a b c d]", "4 handled"},
		"two of four, for good": {func(c trigger.Change) error {
			if c.ID() == "a" || c.ID() == "c" {
				return trigger.Skip(trigger.Failed(errRefused, c))
			}
			return nil
		}, "[b d]", `2 handled, 2 given up ["a" "c"]: 1 changes failed: refused` + "\n" + "1 changes failed: refused"},
		"from one on": {func(c trigger.Change) error {
			if c.ID() == "c" {
				return trigger.FailedFrom(errRefused, c)
			}
			return nil
		}, "[a b]", `2 handled, 2 failed ["c" "d"]: refused`},
		"all": {func(trigger.Change) error { return errRefused }, "[]", `0 handled, 4 failed ["a" "b" "c" "d"]: refused`},
		"one, and then the sink": {func(c trigger.Change) error {
			if c.ID() == "a" {
				return trigger.Skip(trigger.Failed(errRefused, c))
			}
			return errors.New("down")
		}, "[]", `0 handled, 4 failed ["a" "b" "c" "d"]: 1 changes failed: refused` + "\ndown"},
	} {
		t.Run(name, func(t *testing.T) {
			verdict := triggertest.Deliver(t, handler(test.refuse), changes...)
			if got := fmt.Sprint(applied); got != test.applied || verdict.String() != test.verdict {
				t.Errorf("applied %s, verdict %s", got, verdict)
			}
		})
	}
}
