package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"halley/handlers"
	"halley/trigger"
)

func deadLettersCommand() *cobra.Command {
	var pick selection
	c := &cobra.Command{
		Use:   "deadletters",
		Short: "List, show, replay and discard the changes that functions gave up",
		Long: `Deadletters works on the stores of the enabled functions, while hosts run or
not. Settings are those of the hosts; halley check prints them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := c.PersistentFlags()
	f.StringVar(&pick.function, "function", "", "letters of this function only")
	f.StringVar(&pick.key, "key", "", `letters of this partition key only: a JSON array such as '["ada"]', or the text of a single string`)
	f.StringVar(&pick.token, "range", "", "letters of this range only, by its lease token")
	f.BoolVar(&pick.json, "json", false, "print JSON")
	c.AddCommand(listLetters(&pick), showLetter(&pick), replayLetters(&pick), discardLetters(&pick))
	return c
}

func listLetters(pick *selection) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List dead letters, oldest first",
		Long: `List prints a line for each letter, oldest first within each function. With
--json it prints each letter as a whole, one JSON object per line. The exit code
is 1 where a store cannot be read or holds a damaged letter; the letters that are
whole are listed all the same.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stores, err := openStores(pick.function)
			if err != nil {
				return err
			}
			found := pick.find(cmd.Context(), stores)
			if pick.json {
				return printLines(cmd.OutOrStdout(), found)
			}
			return printTable(cmd.OutOrStdout(), found)
		},
	}
}

func showLetter(pick *selection) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show one dead letter with its document, error and stack",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			stores, err := openStores(pick.function)
			if err != nil {
				return err
			}
			found, err := pick.named(cmd.Context(), stores, ids)
			if err != nil {
				return err
			}
			if pick.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(printable(found[0].DeadLetter))
			}
			return printLetter(cmd.OutOrStdout(), found[0])
		},
	}
}

// letterStore is where one function's letters are.
type letterStore struct {
	function string // as in the handlers' list
	name     string // as in the letters: the prefix of the function's leases
	trigger.DeadLetters
}

// openStores opens the stores of the enabled functions that keep letters, or of
// the one that is named. It opens no handler.
func openStores(function string) ([]letterStore, error) {
	s, err := loadKeeping(function)
	if err != nil {
		return nil, err
	}
	clients := accounts{}
	var stores []letterStore
	for _, f := range s.Functions {
		store, err := clients.openLetters(f, zap.NewNop())
		if err != nil {
			return nil, err
		}
		stores = append(stores, letterStore{f.Name, f.Name, store})
	}
	return stores, nil
}

// loadKeeping reads the settings of the enabled functions that keep letters, or
// of the one that is named. A directory that is not there is an error: to open it
// as a store would make it.
func loadKeeping(function string) (*settings, error) {
	s, err := loadSettings(handlers.All())
	if err == nil {
		err = s.only(function)
	}
	if err != nil {
		return nil, err
	}
	s.Functions = slices.DeleteFunc(s.Functions, func(f functionSettings) bool { return !f.DeadLetters.keeps() })
	if len(s.Functions) == 0 {
		return nil, errors.New("no dead letters are kept: HALLEY_DEAD_LETTERS says where they go")
	}
	for _, f := range s.Functions {
		if err := f.directoryThere(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// directoryThere refuses a directory of dead letters that no host has made.
func (f *functionSettings) directoryThere() error {
	if f.DeadLetters.kind != lettersDirectory {
		return nil
	}
	if _, err := os.Stat(f.DeadLetters.name); err != nil {
		return fmt.Errorf("%s=%s: %w: the functions' hosts make it when they start; correct the path", f.setting("DEAD_LETTERS"), f.DeadLetters, err)
	}
	return nil
}

// only keeps the function that is named; "" is all.
func (s *settings) only(function string) error {
	if function == "" {
		return nil
	}
	s.Functions = slices.DeleteFunc(s.Functions, func(f functionSettings) bool { return f.Name != function })
	if len(s.Functions) == 0 {
		return fmt.Errorf("--function %s: not an enabled function, choose from %s", function, s.App.Functions)
	}
	return nil
}

// selection is the flags that choose among letters.
type selection struct {
	function, key, token string
	json                 bool
}

func (p *selection) wants(d trigger.DeadLetter) bool {
	return (p.token == "" || p.token == d.Range) && (p.key == "" || p.key == d.Key || jsonArrayOf(p.key) == d.Key)
}

// jsonArrayOf is the key of documents whose partition key is one string.
func jsonArrayOf(s string) string {
	raw, _ := json.Marshal([]string{s}) // a string encodes
	return string(raw)
}

// letter is a dead letter and where it was found.
type letter struct {
	trigger.DeadLetter
	in letterStore
}

// find goes through the selected letters of all stores. An error is about one
// letter or store, and the rest follows.
func (p *selection) find(ctx context.Context, stores []letterStore) iter.Seq2[letter, error] {
	return func(yield func(letter, error) bool) {
		for _, s := range stores {
			for d, err := range s.List(ctx, s.name) {
				if err != nil {
					err = fmt.Errorf("dead letters of %s: %w", s.function, err)
				} else if !p.wants(d) {
					continue
				}
				if !yield(letter{d, s}, err) {
					return
				}
			}
		}
	}
}

// named finds the letters with these ids; one that is not there is an error.
func (p *selection) named(ctx context.Context, stores []letterStore, ids []string) ([]letter, error) {
	byID := map[string]letter{}
	var failed error
	for l, err := range p.find(ctx, stores) {
		if err != nil {
			failed = errors.Join(failed, err)
		} else if slices.Contains(ids, l.ID) {
			byID[l.ID] = l
		}
	}
	found := make([]letter, len(ids))
	for i, id := range ids {
		l, ok := byID[id]
		if !ok {
			return nil, errors.Join(fmt.Errorf("no dead letter %s: halley deadletters list shows those that are there", id), failed)
		}
		found[i] = l
	}
	return found, nil
}
