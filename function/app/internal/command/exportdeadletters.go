package command

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"halley/function/app/internal/operate"
)

func exportCommand(pick *letterFlags) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "export [ID…]",
		Short: "Write dead letters to a file, for dev --dead-letters",
		Long: `Export writes the selected dead letters, or those with the ids, as one JSON object
per line: document, error, stack, function, range, LSN and key. The store keeps
them. On a developer's machine, dev --dead-letters FILE calls the local handlers
with them. The file has documents: only its owner may read it.

The exit code is 1 if a store cannot be read or holds a damaged dead letter; the
intact ones are still written.`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			stores, err := pick.openStores(cmd.Context())
			if err != nil {
				return err
			}
			found := pick.Find(cmd.Context(), stores)
			if len(ids) > 0 {
				letters, err := pick.Named(cmd.Context(), stores, ids)
				if err != nil {
					return err
				}
				found = whole(letters)
			}
			if output == "" {
				return operate.PrintLines(cmd.OutOrStdout(), found)
			}
			file, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("--output %s: the file exists: remove it, or name another", output)
			}
			if err != nil {
				return fmt.Errorf("--output: %w", err)
			}
			buffered := bufio.NewWriter(file)
			return errors.Join(operate.PrintLines(buffered, found), buffered.Flush(), file.Close())
		},
	}
	c.Flags().StringVar(&output, "output", "", "file to create (default: standard output)")
	return c
}
