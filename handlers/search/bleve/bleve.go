// Package bleve keeps a full-text index of a container in a directory, with the library
// Bleve (https://blevesearch.com). It is for one process: a catalogue of a small app, a
// demo, a test. For several hosts use package [halley/handlers/search/opensearch].
//
// The one rule of idempotency is: an indexed document has the position of its version
// ([halley/handlers/position]), and a change is indexed only if it is not older. The
// position, the document and its words are written in one batch of the index, which is
// on disk when the call returns.
//
// # Deletes
//
// A delete, an expiry or a soft delete replaces the document by an entry without words
// that keeps the position, so that an older version that arrives later is not indexed.
// No query finds it, and it stays in the index: a few bytes for each deleted document.
//
// # Order and failures
//
// The changes of a batch are indexed together, one batch at a time. If the directory
// cannot be written, or another process has the index open, the call fails and is
// repeated. A document that is not a JSON object is dead-lettered.
package bleve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"

	"halley/handlers"
	"halley/handlers/search"
	"halley/trigger"
)

// Settings of the handler, read with the prefix HALLEY_SEARCH_ if the function's name is
// search.
type Settings struct {
	Directory    string   `desc:"directory of the index, which is created; required"`
	Fields       []string `desc:"properties that are indexed, at the first level, separated by commas; all if empty"`
	QueryAddress string   `split_words:"true" desc:"loopback address such as 127.0.0.1:8100 that answers GET /search?q=TEXT once the first change was indexed; none if empty"`
}

// validate returns an error that begins with the name of the setting.
func (s Settings) validate() error {
	if s.Directory == "" {
		return errors.New("DIRECTORY is empty; name a directory for the index")
	}
	if s.QueryAddress == "" {
		return nil
	}
	if host, _, err := net.SplitHostPort(s.QueryAddress); err != nil || !handlers.IsLoopback(host) {
		return fmt.Errorf("QUERY_ADDRESS is %q; write a loopback address with a port, such as 127.0.0.1:8100: queries need no password", s.QueryAddress)
	}
	return nil
}

// Open returns the handler. The index is opened with the first batch.
func Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	if err := s.validate(); err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	env.OfferProbe(probe(env.Prefix, s.Directory))
	index := New(s.Directory, s.Fields)
	index.meter = env.Meter("bleve")
	h := &handler{index: index, address: s.QueryAddress, log: env.Log(), starting: make(chan struct{}, 1)}
	return h.handle, h.close, nil
}

// probe looks at the directory. It does not open the index, which a host may have open.
func probe(prefix, directory string) handlers.Probe {
	return handlers.Probe{What: "directory of the index", Try: func(context.Context) error {
		info, err := os.Stat(directory)
		if errors.Is(err, os.ErrNotExist) || err == nil && info.IsDir() {
			return nil // it is created with the first batch
		}
		return fmt.Errorf("%s is not a directory: correct %sDIRECTORY", directory, prefix)
	}}
}

// Command returns the command search of an app. It needs the index that no host has open;
// while one runs, ask its QUERY_ADDRESS.
//
//	options.Commands = []*cobra.Command{bleve.Command(options.Inspect)}
func Command(inspect handlers.Inspect) *cobra.Command {
	return search.NewCommand(func(ctx context.Context, function string) (search.Query, func() error, error) {
		found, err := inspect(ctx, function)
		if err != nil {
			return nil, nil, err
		}
		s, ok := found.Settings.(*Settings)
		if !ok {
			return nil, nil, fmt.Errorf("--function %s: not an index in a directory", function)
		}
		if err := s.validate(); err != nil {
			return nil, nil, fmt.Errorf("setting %s%w", found.Env.Prefix, err)
		}
		x := New(s.Directory, s.Fields)
		return x.Search, x.Close, nil
	})
}
