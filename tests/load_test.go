package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"halley/handlers/game"
	"halley/tests/history"
	"halley/trigger/cosmos"
)

// record is a history file. The writer and every recorder of a test append to it.
type record struct {
	path string
	file *os.File
}

func newRecord(t *testing.T) *record {
	t.Helper()
	r := &record{path: filepath.Join(t.TempDir(), "history.jsonl")}
	var err error
	if r.file, err = os.OpenFile(r.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.file.Close() })
	return r
}

func (r *record) events(t *testing.T) []history.Event {
	t.Helper()
	f, err := os.Open(r.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := history.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func (r *record) report(t *testing.T) history.Report {
	t.Helper()
	return history.Check(r.events(t))
}

// settled waits until every change written has been delivered, and returns the
// report.
func (r *record) settled(t *testing.T) history.Report {
	t.Helper()
	var report history.Report
	deadline := time.After(patience)
	for {
		if report = r.report(t); report.Lost == 0 {
			return report
		}
		select {
		case <-deadline:
			t.Errorf("%d of %d changes were not delivered in time", report.Lost, report.Written)
			return report
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// passes fails the test if a promise is broken.
func passes(t *testing.T, report history.Report) {
	t.Helper()
	t.Logf("%d written, %d delivered, %d redelivered, %d superseded, %d lost, %d hosts",
		report.Written, report.Delivered, report.Redelivered, report.Superseded, report.Lost, report.Hosts)
	for i, v := range report.Violations {
		if i == 20 {
			t.Errorf("and %d more", len(report.Violations)-i)
			break
		}
		t.Error(v)
	}
}

// load writes results of games. Each player's results are written one after the
// other, numbered by their score.
type load struct {
	container *cosmos.Container
	record    *record
	players   int
	pause     time.Duration // between two results of one player
	first     int64         // number of each player's first result; 0: 1
	rewrite   bool          // every fifth result replaces the document of the one before
}

// from returns a load that continues at seq.
func (l load) from(seq int64) load {
	l.first = seq
	return l
}

// start writes until stop is called, which waits for the last acknowledgement.
func (l load) start(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for player := range l.players {
		writers.Go(func() {
			for seq := max(l.first, 1); ctx.Err() == nil; seq++ {
				if err := l.write(ctx, fmt.Sprintf("player-%d", player), seq); err != nil {
					if ctx.Err() == nil {
						t.Errorf("write: %v", err)
					}
					return
				}
				select {
				case <-time.After(l.pause):
				case <-ctx.Done():
				}
			}
		})
	}
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); writers.Wait() }) }
	t.Cleanup(stop)
	return stop
}

// some writes the results from..to of every player.
func (l load) some(t *testing.T, from, to int64) {
	t.Helper()
	for player := range l.players {
		for seq := from; seq <= to; seq++ {
			if err := l.write(t.Context(), fmt.Sprintf("player-%d", player), seq); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// write posts one result and records it when it is acknowledged. If the outcome of
// a write is unknown, it is repeated: the same document is the same change. Even
// if ctx ends, a write is finished, so that the record has every written change.
func (l load) write(ctx context.Context, player string, seq int64) error {
	id := seq
	if l.rewrite && seq%5 == 0 {
		id = seq - 1
	}
	result := game.Result{ID: fmt.Sprintf("%s-%d", player, id), Player: player, Game: fmt.Sprintf("game-%d", seq), Score: float64(seq)}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for {
		_, err := l.container.Upsert(ctx, cosmos.NewPartitionKey(player), result)
		if errors.Is(err, cosmos.ErrOutcomeUnknown) {
			continue
		}
		if err != nil {
			return err
		}
		return history.Append(l.record.file, history.Event{Kind: history.Write, Key: player, Seq: seq, ID: result.ID})
	}
}

func (a *account) load(r *record) load {
	return load{container: a.client.Container(database, results), record: r, players: 40, pause: 100 * time.Millisecond, rewrite: true}
}
