package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"halley/trigger"
)

func (o Options) deadLettersCommand() *cobra.Command {
	pick := selection{of: o}
	c := &cobra.Command{
		Use:   "deadletters",
		Short: "List, show, export, replay and discard the changes that functions gave up",
		Long: `Deadletters works on the stores of the enabled functions, while hosts run or
not. Settings are those of the hosts; the command check prints them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := c.PersistentFlags()
	f.StringVar(&pick.function, "function", "", "dead letters of this function only")
	f.StringVar(&pick.key, "key", "", `dead letters of this partition key only: a JSON array such as '["ada"]', or the text of a single string`)
	f.StringVar(&pick.token, "range", "", "dead letters of this range only, by its lease token")
	f.Var(&pick.since, "since", "dead letters that were given up since then only: an RFC 3339 time, or a duration such as 2h before now")
	f.StringVar(&pick.text, "error", "", "dead letters whose error contains this text only")
	f.BoolVar(&pick.postponed, "postponed", false, "only changes that their handler has postponed, which their function delivers when they are due")
	f.BoolVar(&pick.json, "json", false, "print JSON")
	c.AddCommand(listCommand(&pick), showCommand(&pick), exportCommand(&pick), replayCommand(&pick), discardCommand(&pick))
	return c
}

func listCommand(pick *selection) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List dead letters and postponed changes, oldest first",
		Long: `List prints a line for each dead letter, oldest first within each function, and
for each change that its handler has postponed, with the time at which it is due. With
--json it prints each dead letter as a whole, one JSON object per line. The exit
code is 1 if a store cannot be read or holds a damaged dead letter; the intact
ones are still listed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stores, err := pick.openStores(cmd.Context())
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

func showCommand(pick *selection) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show one dead letter with its document, error and stack",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			stores, err := pick.openStores(cmd.Context())
			if err != nil {
				return err
			}
			found, err := pick.named(cmd.Context(), stores, ids)
			if err != nil {
				return err
			}
			if pick.json {
				return json.NewEncoder(terminalSafe{cmd.OutOrStdout()}).Encode(printable(found[0].DeadLetter))
			}
			return printDeadLetter(cmd.OutOrStdout(), found[0])
		},
	}
}

// functionStore is the store of one function's dead letters.
type functionStore struct {
	function string
	source   trigger.DeadLetterSource
	trigger.DeadLetters
}

// openStores opens the stores of the enabled functions that keep dead letters, or
// that of the named function. It opens no handler.
func (p *selection) openStores(ctx context.Context) ([]functionStore, error) {
	s, err := p.loadKeeping()
	if err != nil {
		return nil, err
	}
	clients := commandAccounts()
	var stores []functionStore
	for _, f := range s.Functions {
		store, err := clients.openDeadLetters(f, zap.NewNop())
		if err != nil {
			return nil, err
		}
		at, err := clients.open(f)
		if err == nil && f.DeadLetters.row().inCosmos {
			err = clients.reach(ctx, f)
		}
		if err != nil {
			return nil, err
		}
		stores = append(stores, functionStore{f.Name, f.function(at.monitored).DeadLetterSource(), store})
	}
	return stores, nil
}

// loadKeeping reads the settings of the enabled functions that keep dead letters,
// or of the named function. A directory that does not exist is an error, because
// opening it as a store would create it.
func (p *selection) loadKeeping() (*settings, error) {
	s, err := loadSettings(p.of)
	if err == nil {
		err = s.only(p.function)
	}
	if err != nil {
		return nil, err
	}
	s.Functions = slices.DeleteFunc(s.Functions, func(f functionSettings) bool { return !f.DeadLetters.row().keeps })
	if len(s.Functions) == 0 {
		return nil, errors.New("no enabled function keeps dead letters: set HALLEY_DEAD_LETTERS=container")
	}
	for _, f := range s.Functions {
		if err := f.checkDirectory(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// checkDirectory refuses a directory of dead letters that no host has created.
func (f *functionSettings) checkDirectory() error {
	if !f.DeadLetters.row().onDisk {
		return nil
	}
	if _, err := os.Stat(f.DeadLetters.name); err != nil {
		return fmt.Errorf("%s=%s: %w: the functions' hosts create it when they start; correct the path", f.setting("DEAD_LETTERS"), f.DeadLetters, err)
	}
	return nil
}

// only drops the other functions; "" keeps all.
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

// selection holds the flags that select dead letters.
type selection struct {
	of                         Options
	function, key, token, text string
	since                      moment
	ids                        []string // of a replay; none selects all
	json                       bool
	postponed                  bool // postponed changes alone
	dead                       bool // dead letters alone, unless ids name others
}

func (p *selection) wants(d trigger.DeadLetter) bool {
	if d.IsPostponed() && p.dead && !p.postponed && len(p.ids) == 0 || !d.IsPostponed() && p.postponed {
		return false
	}
	return (len(p.ids) == 0 || slices.Contains(p.ids, d.ID)) && !d.Time.Before(p.since.Time) && strings.Contains(d.Error, p.text) &&
		(p.token == "" || p.token == d.Range) && (p.key == "" || p.key == d.Key || jsonArrayOf(p.key) == d.Key)
}

// moment is a flag that holds a time, given as such or as a duration before now.
type moment struct{ time.Time }

func (m *moment) Set(s string) (err error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		m.Time = time.Now().Add(-d)
		return nil
	}
	if m.Time, err = time.Parse(time.RFC3339, s); err != nil {
		return errors.New("write a time such as 2026-01-31T09:00:00Z, or a duration such as 2h")
	}
	return nil
}

func (m *moment) Type() string { return "time" }

func (m *moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Format(time.RFC3339)
}

// jsonArrayOf returns the key of documents whose partition key is one string.
func jsonArrayOf(s string) string {
	raw, _ := json.Marshal([]string{s}) // a string encodes
	return string(raw)
}

// storedLetter is a dead letter and its store.
type storedLetter struct {
	trigger.DeadLetter
	in functionStore
}

// find yields the selected dead letters of all stores. An error is about one dead
// letter or one store, and the iteration continues after it.
func (p *selection) find(ctx context.Context, stores []functionStore) iter.Seq2[storedLetter, error] {
	return func(yield func(storedLetter, error) bool) {
		for _, s := range stores {
			for d, err := range s.List(ctx, s.source) {
				if err != nil {
					err = fmt.Errorf("dead letters of %s: %w", s.function, err)
				} else if !p.wants(d) {
					continue
				}
				if !yield(storedLetter{d, s}, err) {
					return
				}
			}
		}
	}
}

// named finds the dead letters with these ids; a missing one is an error.
func (p *selection) named(ctx context.Context, stores []functionStore, ids []string) ([]storedLetter, error) {
	byID := map[string]storedLetter{}
	var failed error
	for l, err := range p.find(ctx, stores) {
		if err != nil {
			failed = errors.Join(failed, err)
		} else if slices.Contains(ids, l.ID) {
			byID[l.ID] = l
		}
	}
	found := make([]storedLetter, len(ids))
	for i, id := range ids {
		l, ok := byID[id]
		if !ok {
			return nil, errors.Join(fmt.Errorf("no dead letter %s: deadletters list shows all", id), failed)
		}
		found[i] = l
	}
	return found, nil
}
