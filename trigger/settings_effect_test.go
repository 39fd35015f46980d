package trigger

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// settingCase shows the effect of one field by two runs of one scenario: with its default
// and with another value.
type settingCase struct {
	field         string // with its type, as in "Function.MaxAhead"
	setOther      func(r *settingRun, f *Function, o *Options)
	ranges        int // 1 by default
	account       emulator.Options
	measure       func(r *settingRun) float64
	quantity      string // measured, with its unit
	defaultBounds bounds
	otherBounds   bounds
}

// bounds are the least and the largest value that the field's comment allows.
type bounds struct{ min, max float64 }

func exactly(n float64) bounds { return bounds{n, n} }

func (b bounds) contain(n float64) bool { return b.min <= n && n <= b.max }

// settingRun is one run of a scenario.
type settingRun struct {
	*world
	began    time.Time
	apply    func(*Function, *Options) // sets the field, or does nothing
	store    *memoryStore              // for scenarios with dead letters
	position string                    // for FromContinuation
	noted    []string                  // by callbacks that are the field's other value
	logged   bytes.Buffer              // by the field's other value

	callMu       sync.Mutex // guards the rest
	calls        []settingCall
	callsRunning int
	maxRunning   int // calls at a time
}

// settingCall is a handler call.
type settingCall struct {
	since   time.Duration // from the beginning of the run
	changes int
	bytes   int // of documents
}

// TestEachSettingHasAnEffect: a field of a function or a host that does nothing, or has
// another unit than its comment says, fails its case, and a new field needs a case.
func TestEachSettingHasAnEffect(t *testing.T) {
	cases := map[string][]settingCase{}
	shown := map[string]bool{}
	for _, c := range slices.Concat(sourceSettings(), readingSettings(), checkpointSettings(), batchSettings(), retrySettings(), deadLetterSettings(), leaseSettings(), hostSettings()) {
		_, name, _ := strings.Cut(c.field, ".")
		cases[name], shown[c.field] = append(cases[name], c), true
	}
	for _, field := range settingFields() {
		if !shown[field] {
			t.Errorf("%s has no case that shows its effect", field)
		}
		delete(shown, field)
	}
	for field := range shown {
		t.Errorf("%s is a case without a field", field)
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			for _, c := range cases[name] {
				c.check(t)
			}
		})
	}
}

// settingFields returns the fields of functions, hosts and checkpoints. Those of a
// function's embedded values are the function's.
func settingFields() (fields []string) {
	for _, settings := range []reflect.Type{reflect.TypeFor[Function](), reflect.TypeFor[Options](), reflect.TypeFor[Checkpoint]()} {
		for _, field := range reflect.VisibleFields(settings) {
			if !field.Anonymous {
				fields = append(fields, settings.Name()+"."+field.Name)
			}
		}
	}
	return fields
}

// check runs the scenario with the default and with the other value.
func (c settingCase) check(t *testing.T) {
	t.Helper()
	if c.defaultBounds.max >= c.otherBounds.min && c.otherBounds.max >= c.defaultBounds.min {
		t.Errorf("%s: the bounds %v and %v overlap, so the case may pass without an effect", c.field, c.defaultBounds, c.otherBounds)
	}
	if n := c.run(t, false); !c.defaultBounds.contain(n) {
		t.Errorf("%s by default: %v %s, want %v", c.field, n, c.quantity, c.defaultBounds)
	}
	if n := c.run(t, true); !c.otherBounds.contain(n) {
		t.Errorf("%s with another value: %v %s, want %v", c.field, n, c.quantity, c.otherBounds)
	}
}

func (c settingCase) run(t *testing.T, isOther bool) (n float64) {
	inWorldOf(t, c.account, max(c.ranges, 1), func(t *testing.T, w *world) {
		r := &settingRun{world: w, began: time.Now(), store: &memoryStore{}, apply: func(*Function, *Options) {}}
		if isOther {
			r.apply = func(f *Function, o *Options) { c.setOther(r, f, o) }
			if set := r.fieldsSet(strings.HasPrefix(c.field, "Checkpoint.")); !slices.Equal(set, []string{c.field}) {
				t.Errorf("case of %s: it sets %v", c.field, set)
			}
		}
		n = c.measure(r)
	})
	return n
}

// fieldsSet returns the fields that the other value sets. A checkpoint counts as one
// field, or as its own ones if the case is for one of these.
func (r *settingRun) fieldsSet(withinCheckpoint bool) (fields []string) {
	var f Function
	var o Options
	r.apply(&f, &o)
	var c Checkpoint
	if withinCheckpoint {
		c, f.Checkpoint = f.Checkpoint, c
	}
	for _, settings := range []any{f, o, c} {
		v := reflect.ValueOf(settings)
		for _, field := range reflect.VisibleFields(v.Type()) {
			if !field.Anonymous && !v.FieldByIndex(field.Index).IsZero() {
				fields = append(fields, v.Type().Name()+"."+field.Name)
			}
		}
	}
	return fields
}

// newHost makes host "a" with the settings of the scenario, and then the field's.
func (r *settingRun) newHost(handler Handler, scenario ...func(*Function, *Options)) *Host {
	r.t.Helper()
	settings := slices.Concat([]func(*Function, *Options){withoutLogger}, scenario, []func(*Function, *Options){r.apply})
	return r.host("a", r.recordCalls(handler), settings...)
}

// runFor runs host "a" for a time.
func (r *settingRun) runFor(d time.Duration, handler Handler, scenario ...func(*Function, *Options)) {
	r.t.Helper()
	stop := r.startHost(r.newHost(handler, scenario...))
	time.Sleep(d)
	stop()
}

// drainOnce drains with host "a".
func (r *settingRun) drainOnce(handler Handler, scenario ...func(*Function, *Options)) {
	r.t.Helper()
	_, err := r.newHost(handler, scenario...).Drain(r.t.Context())
	must(r.t, err)
}

// recordCalls wraps a handler so that its calls are recorded.
func (r *settingRun) recordCalls(handler Handler) Handler {
	return func(ctx context.Context, b Batch) error {
		call := settingCall{since: time.Since(r.began), changes: len(b.Changes)}
		for _, c := range b.Changes {
			call.bytes += len(c.Document)
		}
		r.callMu.Lock()
		r.calls = append(r.calls, call)
		r.callsRunning++
		r.maxRunning = max(r.maxRunning, r.callsRunning)
		r.callMu.Unlock()
		defer func() {
			r.callMu.Lock()
			r.callsRunning--
			r.callMu.Unlock()
		}()
		return handler(ctx, b)
	}
}

// note records that a callback was called.
func (r *settingRun) note(text string) {
	r.callMu.Lock()
	defer r.callMu.Unlock()
	r.noted = append(r.noted, text)
}

// notes returns how often callbacks were called.
func (r *settingRun) notes() float64 {
	r.callMu.Lock()
	defer r.callMu.Unlock()
	return float64(len(r.noted))
}

// callCount returns the number of handler calls.
func (r *settingRun) callCount() float64 {
	r.callMu.Lock()
	defer r.callMu.Unlock()
	return float64(len(r.calls))
}

// changeCount returns the number of changes in the handler calls.
func (r *settingRun) changeCount() (n float64) {
	r.callMu.Lock()
	defer r.callMu.Unlock()
	for _, c := range r.calls {
		n += float64(c.changes)
	}
	return n
}

// largestBatch returns the most changes in a call.
func (r *settingRun) largestBatch() (n float64) {
	for _, c := range r.calls {
		n = max(n, float64(c.changes))
	}
	return n
}

// callGaps returns the seconds between the beginnings of calls.
func (r *settingRun) callGaps() (seconds []float64) {
	for i := 1; i < len(r.calls); i++ {
		seconds = append(seconds, (r.calls[i].since - r.calls[i-1].since).Seconds())
	}
	return seconds
}

// eventAfter returns the seconds from the beginning to the first event of a kind, or -1.
func (r *settingRun) eventAfter(kind EventKind) float64 {
	for _, e := range r.eventsOf(kind) {
		return e.Time.Sub(r.began).Seconds()
	}
	return -1
}

// handleAll is a handler that succeeds.
func handleAll(context.Context, Batch) error { return nil }

// changesOneByOne sets batches of one change.
func changesOneByOne(f *Function, _ *Options) { f.MaxItemsPerInvocation = 1 }

// withLetters sets the store of the run.
func (r *settingRun) withLetters(f *Function, _ *Options) { f.DeadLetters = r.store }

// letterCount returns the number of dead letters.
func (r *settingRun) letterCount() float64 { return float64(len(r.store.all())) }

// upsertInto stores a document that is a logical partition key of its own.
func (r *settingRun) upsertInto(container *cosmos.Container, id string, properties map[string]any) {
	r.t.Helper()
	doc := map[string]any{"id": id, "player": id}
	maps.Copy(doc, properties)
	_, err := container.Upsert(r.t.Context(), cosmos.NewPartitionKey(id), doc)
	must(r.t, err)
}

// writeLarge stores documents of about so many bytes.
func (r *settingRun) writeLarge(n, bytes int) {
	r.t.Helper()
	for i := range n {
		r.upsertInto(r.items, fmt.Sprint("large", i), map[string]any{"text": strings.Repeat("x", bytes)})
	}
}
