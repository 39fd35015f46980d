package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"halley/function/app"
	"halley/handlers"
	"halley/handlers/game"
	"halley/handlers/game/writer"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// row is one handler of the showcase.
type row struct {
	entry   handlers.Entry
	needs   string                      // setting that names a real server; "" if the part runs in this process
	tag     string                      // of the build in whose process the part runs, if this one needs the server
	start   func(*stage) (*part, error) // starts the part
	refuses []string                    // changes of the walk that are dead-lettered, as the handler's page says
}

// part is the server that a handler writes to.
type part struct {
	settings map[string]string // presets, by the names of the variables

	// prepare, if not nil, creates what must exist before the handlers are opened.
	prepare func(ctx context.Context, run *app.DevRun) error

	// read returns the versions of the documents that the sink has, by id; those of other
	// shapes have version 0. A sink that keeps the best score of each player has scores, by
	// player, instead.
	read   func(ctx context.Context) (versions, error)
	scores bool

	// compare compares the sink with the documents of the account after the run, and
	// returns a sentence that says what is equal.
	compare func(ctx context.Context, written []document) (string, error)
}

// document is a document of the load, as the account has it at the end.
type document struct {
	game.Result
	Version int
	Raw     json.RawMessage // with the system properties
}

// verdict is the last line of a handler.
type verdict struct {
	handler string
	text    string
	err     error
}

func (v verdict) String() string {
	if v.err != nil {
		return fmt.Sprintf("%s: NOT EQUAL: %v", v.handler, v.err)
	}
	return v.handler + ": " + v.text
}

// Names of the containers.
const (
	database = "showcase"
	results  = "results"
	ranges   = 4
)

// stage has the parts of the chosen handlers.
type stage struct {
	rows     []row
	parts    []*part
	closers  []func() error // in the order of opening
	redis    *miniredis.Miniredis
	run      *app.DevRun
	loaded   bool
	verdicts []verdict
}

// start starts the parts, for the field Dev of [app.Options].
func (s *stage) start(context.Context) (*app.DevServices, error) {
	settings := map[string]string{
		"HALLEY_DATABASE_NAME":  database,
		"HALLEY_CONTAINER_NAME": results,
		"HALLEY_LOG_LEVEL":      "error",
	}
	for _, r := range s.rows {
		p, err := r.start(s)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("part of handler %s: %w", r.entry.Name, err), s.closeParts())
		}
		s.parts = append(s.parts, p)
		maps.Copy(settings, p.settings)
	}
	return &app.DevServices{Settings: settings, Prepare: s.prepare, Load: s.load, Close: s.close}, nil
}

// onClose registers a function for the end of the run.
func (s *stage) onClose(closer func() error) { s.closers = append(s.closers, closer) }

// redisURL returns the URL of an embedded Redis, which all handlers share.
func (s *stage) redisURL() (string, error) {
	if s.redis == nil {
		started, err := miniredis.Run()
		if err != nil {
			return "", fmt.Errorf("start the embedded Redis: %w", err)
		}
		s.redis = started
		s.onClose(func() error { started.Close(); return nil })
	}
	return "redis://" + s.redis.Addr(), nil
}

// redisClient returns a client of the embedded Redis, to look at it.
func (s *stage) redisClient() *goredis.Client {
	client := goredis.NewClient(&goredis.Options{Addr: s.redis.Addr()})
	s.onClose(client.Close)
	return client
}

// prepare creates the monitored container, and whatever the parts need.
func (s *stage) prepare(ctx context.Context, run *app.DevRun) error {
	s.run = run
	for _, f := range run.Functions {
		if err := run.Create(ctx, app.Container{Database: f.Database, Name: f.Container, PartitionKey: []string{"/player"}, Ranges: ranges}); err != nil {
			return err
		}
	}
	for _, p := range s.parts {
		if p.prepare == nil {
			continue
		}
		if err := p.prepare(ctx, run); err != nil {
			return err
		}
	}
	return nil
}

// load posts game results until ctx ends.
func (s *stage) load(ctx context.Context, run *app.DevRun) {
	s.loaded = true
	w := &writer.Writer{
		Containers: run.Monitored(), Rate: run.Rate, Prefix: strconv.FormatInt(time.Now().UnixNano(), 36),
		Wrote: run.Wrote, Failed: run.WriteFailed,
	}
	w.Run(ctx)
}

// compareTime bounds the comparison of one sink.
const compareTime = 30 * time.Second

// close compares the sinks with the account, and stops the parts. The hosts have stopped.
func (s *stage) close() error {
	if s.loaded {
		for i, r := range s.rows {
			s.verdicts = append(s.verdicts, s.compare(r.entry.Name, s.parts[i]))
		}
	}
	return s.closeParts()
}

func (s *stage) compare(name string, p *part) verdict {
	ctx, cancel := context.WithTimeout(context.Background(), compareTime)
	defer cancel()
	written, err := s.written(ctx, name)
	if err == nil && len(written) == 0 {
		err = errors.New("nothing was written")
	}
	if err != nil {
		return verdict{handler: name, err: err}
	}
	text, err := p.compare(ctx, written)
	return verdict{name, text, err}
}

// written reads the documents of the container that a function monitors. If it has a
// filter, these are the documents that pass it.
func (s *stage) written(ctx context.Context, function string) (documents []document, err error) {
	i := slices.IndexFunc(s.run.Functions, func(f app.DevFunction) bool { return f.Name == function })
	if i < 0 {
		return nil, errors.New("the function is switched off")
	}
	f := s.run.Functions[i]
	passes, err := filterOf(s.rows[slices.IndexFunc(s.rows, func(r row) bool { return r.entry.Name == function })].entry)
	if err != nil {
		return nil, err
	}
	for page, err := range s.run.Client.Container(f.Database, f.Container).Query(ctx, cosmos.Query{Text: "SELECT * FROM c"}) {
		if err != nil {
			return nil, err
		}
		for _, raw := range page.Items {
			if !passes(trigger.Change{Document: raw}) {
				continue
			}
			d := document{Raw: raw}
			var version struct{ Version int }
			if err := errors.Join(json.Unmarshal(raw, &d.Result), json.Unmarshal(raw, &version)); err != nil {
				return nil, err
			}
			d.Version = version.Version
			documents = append(documents, d)
		}
	}
	return documents, nil
}

// filterOf returns the filter that the settings give a handler; without one all changes
// pass.
func filterOf(e handlers.Entry) (passes func(trigger.Change) bool, err error) {
	text := cmp.Or(os.Getenv(e.Prefix()+"FILTER"), os.Getenv("HALLEY_FILTER"))
	if text == "" {
		return func(trigger.Change) bool { return true }, nil
	}
	filter, err := trigger.ParseFilter(text)
	if err != nil {
		return nil, err
	}
	return filter.Compile()
}

func (s *stage) closeParts() error {
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}
