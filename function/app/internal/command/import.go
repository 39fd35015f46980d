package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"halley/function/app/internal/account"
	"halley/function/app/internal/functions"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
	"halley/handlers"
)

func importCommand(entries []handlers.Entry) *cobra.Command {
	var function string
	c := &cobra.Command{
		Use:   "import FUNCTION.JSON",
		Short: "Translate a Cosmos DB trigger of Azure Functions to settings",
		Long: `Import prints settings with which a function of this app continues at the leases
of a Cosmos DB trigger, from the trigger's function.json and the host.json of its
app: nothing is processed again or left out. The settings go to stdout, a line
each, quoted for a shell; properties without a setting go to stderr.

	halley import OLD/function.json > halley.env
	set -a; . ./halley.env; set +a

References to app settings such as %DATABASE% are resolved in the environment.
If a setting cannot be translated, it is named on stderr, and the exit code is 1.

The trigger and this app may run at the same time: they share the leases, and one
of them has each range. Disable the trigger when this app runs.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			entry, err := importedFunction(entries, function)
			if err != nil {
				return err
			}
			return importBinding(args[0], entry.Prefix(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	c.Flags().StringVar(&function, "function", "", "function of this app that takes over (default: the only one)")
	return c
}

// importedFunction returns the function with a name, or the only one.
func importedFunction(entries []handlers.Entry, name string) (handlers.Entry, error) {
	if name == "" && len(entries) == 1 {
		return entries[0], nil
	}
	if name == "" {
		return handlers.Entry{}, fmt.Errorf("name the function that takes over with --function: one of %v", settings.Names(entries))
	}
	i := slices.IndexFunc(entries, func(e handlers.Entry) bool { return e.Name == name })
	if i < 0 {
		return handlers.Entry{}, fmt.Errorf("--function %q is not a function of this app: choose from %v", name, settings.Names(entries))
	}
	return entries[i], nil
}

// importBinding translates a function.json and prints the outcome.
func importBinding(file, prefix string, out, notes io.Writer) error {
	function, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	host, err := os.ReadFile(filepath.Join(filepath.Dir(file), "..", "host.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	t, err := functions.TranslateBinding(function, host, prefix, account.Variable)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, s := range t.Settings {
		fmt.Fprintf(out, "%s=%s\n", s[0], shellWord(s[1]))
	}
	for _, n := range t.Notes {
		fmt.Fprintf(notes, "no setting: %s\n", text.Line(n))
	}
	for _, n := range t.Open {
		fmt.Fprintf(notes, "not translated: %s\n", text.Line(n))
	}
	if len(t.Open) > 0 {
		return fmt.Errorf("%d settings were not translated: set them by hand before the app runs", len(t.Open))
	}
	return nil
}

// shellWord quotes a value for a POSIX shell, if it has a character that a shell may read
// as more than itself.
func shellWord(value string) string {
	isPlain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:,@%+=", r)
	}
	if value != "" && !strings.ContainsFunc(value, func(r rune) bool { return !isPlain(r) }) {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}
