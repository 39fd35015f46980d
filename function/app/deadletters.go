package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"halley/function/app/internal/account"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
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
	f.Var(&pick.until, "until", "dead letters that were given up before then only, written as for --since")
	f.StringVar(&pick.text, "error", "", "dead letters whose error contains this text only")
	f.BoolVar(&pick.postponed, "postponed", false, "only changes that their handler has postponed, which their function delivers when they are due")
	f.BoolVar(&pick.json, "json", false, "print JSON")
	c.AddCommand(listCommand(&pick), showCommand(&pick), exportCommand(&pick), replayCommand(&pick), discardCommand(&pick))
	return c
}

func listCommand(pick *selection) *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List dead letters and postponed changes, oldest first",
		Long: `List prints a line for each dead letter of a function, oldest first, and then
for each change that its handler has postponed, with the time at which it is due. With
--json it prints each of them as a whole, one JSON object per line. The exit
code is 1 if a store cannot be read or holds a damaged dead letter; the intact
ones are still listed.

A container of Cosmos DB selects by itself. A directory and blobs read all dead letters
that the other filters leave, to find those of --error.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if pick.limit < 0 {
				return fmt.Errorf("--limit %d: must not be negative", pick.limit)
			}
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
	c.Flags().BoolVar(&pick.newest, "newest", false, "list the newest ones first")
	c.Flags().IntVar(&pick.limit, "limit", 0, "list this many dead letters, and as many postponed changes, of each function at most; 0 is no limit")
	return c
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
				return json.NewEncoder(text.SafeWriter(cmd.OutOrStdout())).Encode(printable(found[0].DeadLetter))
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
	clients := account.CommandClients()
	var stores []functionStore
	for _, f := range s.Functions {
		store, err := clients.OpenDeadLetters(f, zap.NewNop())
		if err != nil {
			return nil, err
		}
		at, err := clients.Open(f)
		if err == nil && f.DeadLetters.Row().InCosmos {
			err = clients.Reach(ctx, f)
		}
		if err != nil {
			return nil, err
		}
		stores = append(stores, functionStore{f.Name, f.TriggerFunction(at.Monitored).DeadLetterSource(), store})
	}
	return stores, nil
}

// loadKeeping reads the settings of the enabled functions that keep dead letters,
// or of the named function. A directory that does not exist is an error, because
// opening it as a store would create it.
func (p *selection) loadKeeping() (*settings.Settings, error) {
	s, err := settings.Load(p.of.source())
	if err == nil {
		err = s.Only(p.function)
	}
	if err != nil {
		return nil, err
	}
	s.Functions = slices.DeleteFunc(s.Functions, func(f settings.Function) bool { return !f.DeadLetters.Row().Keeps })
	if len(s.Functions) == 0 {
		return nil, errors.New("no enabled function keeps dead letters: set HALLEY_DEAD_LETTERS=container")
	}
	for _, f := range s.Functions {
		if err := f.CheckDirectory(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// selection holds the flags that select dead letters.
type selection struct {
	of                         Options
	function, key, token, text string
	since, until               moment
	ids                        []string // of a replay; none selects all
	json                       bool
	postponed                  bool // postponed changes alone
	dead                       bool // dead letters alone, unless ids name others
	newest                     bool // first
	limit                      int  // of the records of each kind and function; 0 is none
}

// kinds are the selected kinds of records, in the order in which they are listed.
func (p *selection) kinds() []trigger.RecordKind {
	switch {
	case p.postponed:
		return []trigger.RecordKind{trigger.RecordPostponed}
	case p.dead && len(p.ids) == 0:
		return []trigger.RecordKind{trigger.RecordDead}
	}
	return []trigger.RecordKind{trigger.RecordDead, trigger.RecordPostponed}
}

// query selects the records of one kind. Several ids are left to wants.
func (p *selection) query(kind trigger.RecordKind) trigger.DeadLetterQuery {
	q := trigger.DeadLetterQuery{
		Kind: kind, Range: p.token, Key: p.key, ErrorContains: p.text, After: p.since.Time, Before: p.until.Time, NewestFirst: p.newest,
	}
	if q.Key != "" && !isJSONArray(q.Key) {
		q.Key = jsonArrayOf(q.Key)
	}
	if len(p.ids) == 1 {
		q.ID = p.ids[0]
	}
	return q
}

func (p *selection) wants(d trigger.DeadLetter) bool {
	return len(p.ids) == 0 || slices.Contains(p.ids, d.ID)
}

func isJSONArray(s string) bool {
	var array []json.RawMessage
	return json.Unmarshal([]byte(s), &array) == nil
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
			damaged := map[string]bool{} // a record may be damaged in the lists of both kinds
			for _, kind := range p.kinds() {
				if !p.findKind(ctx, s, kind, damaged, yield) {
					return
				}
			}
		}
	}
}

// findKind yields those of one store and kind; false means that the caller has ended.
func (p *selection) findKind(ctx context.Context, s functionStore, kind trigger.RecordKind, damaged map[string]bool, yield func(storedLetter, error) bool) bool {
	q, n := p.query(kind), 0
	q.Source, q.Limit = s.source, min(p.limit, lettersOfPage)
	for d, err := range trigger.AllDeadLetters(ctx, s, q) {
		switch {
		case err != nil && damaged[err.Error()], err == nil && !p.wants(d):
			continue
		case err != nil:
			damaged[err.Error()] = true
			err = fmt.Errorf("dead letters of %s: %w", s.function, err)
		default:
			n++
		}
		if !yield(storedLetter{d, s}, err) {
			return false
		}
		if p.limit > 0 && n == p.limit {
			return true
		}
	}
	return true
}

// lettersOfPage bounds the dead letters that a command asks for at a time.
const lettersOfPage = 100

// named finds the dead letters with these ids; a missing one is an error.
func (p *selection) named(ctx context.Context, stores []functionStore, ids []string) ([]storedLetter, error) {
	byID := map[string]storedLetter{}
	var failed error
	wanted := *p
	wanted.ids = ids
	for l, err := range wanted.find(ctx, stores) {
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
