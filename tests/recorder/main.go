// Recorder is a host whose handler records each delivered change. Several
// recorders append to one file, a history for package history. Documents are
// results of games: the player is the key, the score the number of the change
// within its key.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"halley/handlers/game"
	"halley/tests/history"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/deadletter"
)

// settings are the command line.
type settings struct {
	connection, database, container, leases, prefix string
	path                                            string
	drain                                           bool
	fail, postpone                                  int64
	delay                                           time.Duration
	options                                         trigger.Options
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, readFlags()); err != nil {
		fmt.Fprintln(os.Stderr, "recorder:", err)
		os.Exit(1)
	}
}

func readFlags() settings {
	var s settings
	flag.StringVar(&s.connection, "connection", "", "connection string of the account")
	flag.StringVar(&s.database, "database", "", "database of both containers")
	flag.StringVar(&s.container, "container", "", "monitored container")
	flag.StringVar(&s.leases, "leases", "", "lease container")
	flag.StringVar(&s.prefix, "prefix", "", "processor name")
	flag.StringVar(&s.path, "history", "", "file to append to")
	flag.BoolVar(&s.drain, "drain", false, "drain once instead of running until stopped")
	flag.Int64Var(&s.fail, "fail", 0, "fail the first attempt of every n-th handler call; 0: none")
	flag.Int64Var(&s.postpone, "postpone", 0, "postpone every n-th change of a key at its first attempt; 0: none. The lease container keeps the changes")
	flag.DurationVar(&s.delay, "delay", 0, "time that a handler call takes")
	flag.StringVar(&s.options.Owner, "owner", "", "name in leases")
	flag.DurationVar(&s.options.FeedPollDelay, "poll", 0, "wait before an idle range is read again")
	flag.DurationVar(&s.options.LeaseAcquireInterval, "acquire", 0, "lease acquire interval")
	flag.DurationVar(&s.options.LeaseRenewInterval, "renew", 0, "lease renew interval")
	flag.DurationVar(&s.options.LeaseExpirationInterval, "expiration", 0, "lease expiration interval")
	flag.Parse()
	return s
}

func run(ctx context.Context, s settings) error {
	endpoint, credential, err := cosmos.ParseConnectionString(s.connection)
	if err != nil {
		return err
	}
	client, err := cosmos.NewClient(endpoint, credential, nil)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(s.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	s.options.Logger = slog.New(slog.NewJSONHandler(os.Stderr, nil))
	leases := client.Container(s.database, s.leases)
	var store trigger.DeadLetters
	if s.postpone > 0 {
		container, err := deadletter.NewContainer(leases, nil)
		if err != nil {
			return err
		}
		store = smallPages{container}
	}
	r := &recorder{settings: s, file: file}
	host, err := trigger.New(leases, []trigger.Function{{
		FeedSource: trigger.FeedSource{
			Name:        "recorder",
			LeasePrefix: cmp.Or(s.prefix, trigger.NoLeasePrefix),
			Container:   client.Container(s.database, s.container),
			StartFrom:   trigger.FromBeginning(),
		},
		Handler:     r.handle,
		DeadLetters: store,
	}}, &s.options)
	if err != nil {
		return err
	}
	if !s.drain {
		return host.Run(ctx)
	}
	summary, err := host.Drain(ctx)
	fmt.Printf("%+v\n", summary)
	return err
}

type recorder struct {
	settings
	file  *os.File
	calls atomic.Int64
}

var errOnPurpose = errors.New("failed on purpose")

// smallPages is a store whose lists of few records have many pages.
type smallPages struct{ trigger.DeadLetters }

func (s smallPages) Query(ctx context.Context, q trigger.DeadLetterQuery) (trigger.DeadLetterPage, error) {
	q.Limit = 3
	return s.DeadLetters.Query(ctx, q)
}

// postponement is the time by which the flag -postpone postpones changes.
const postponement = 500 * time.Millisecond

// handle appends the batch with one write, without the changes that the flag -postpone
// selects and later ones of their keys. If the flag -fail selects the call, it then
// fails, so that the recorded changes are redelivered.
func (r *recorder) handle(ctx context.Context, b trigger.Batch) error {
	var events []history.Event
	var postponed []trigger.Change
	keys := map[string]bool{}
	for _, c := range b.Changes {
		var result game.Result
		if err := c.Decode(&result); err != nil {
			return err
		}
		seq := int64(result.Score)
		if keys[result.Player] || r.postpone > 0 && b.Attempt == 1 && seq%r.postpone == 0 {
			keys[result.Player] = true
			postponed = append(postponed, c)
			continue
		}
		events = append(events, history.Event{
			Kind: history.Delivery, Key: result.Player, Seq: seq, ID: result.ID,
			Host: r.options.Owner, Range: b.Range.ID, Epoch: b.Epoch, Attempt: b.Attempt, LSN: c.LSN,
		})
	}
	if r.delay > 0 {
		select {
		case <-time.After(r.delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := history.Append(r.file, events...); err != nil {
		return err
	}
	if r.fail > 0 && b.Attempt == 1 && r.calls.Add(1)%r.fail == 0 {
		return errOnPurpose
	}
	if len(postponed) > 0 {
		return trigger.RetryAfter(trigger.Failed(errOnPurpose, postponed...), postponement)
	}
	return nil
}
