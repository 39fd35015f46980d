//go:build !nodev

package command

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"halley/function/app/internal/scaffold"
	"halley/function/app/internal/settings"
	"halley/handlers"
	"halley/trigger"
)

// NewCommand returns the command new, which writes an app or a handler.
func NewCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "new",
		Short: "Write a new app or a new handler",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(newAppCommand(), newHandlerCommand())
	return c
}

func newAppCommand() *cobra.Command {
	var a scaffold.App
	var language string
	c := &cobra.Command{
		Use:   "app DIR",
		Short: "Write an app of your own",
		Long: `App writes a module with one handler and its test, the files of a Functions app,
settings and documents for development, and a workflow for GitHub. DIR must be
new or empty. The name of the directory becomes the name of the app.

The template minimal is all of that. The others add the files of a platform:
azd those of Azure Functions with its resources, container those of Kubernetes
and Container Apps, and lambda those of AWS Lambda.

The module of Halley has no public path yet, so go.mod replaces it by the
directory of its source.

With --lang the function is a program in Python or TypeScript, and the app needs no
Go: its files are those of the wheel's or the npm package's command halley.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Dir = args[0]
			if language != "go" {
				return createProgram(cmd, a, language)
			}
			if err := a.Create(cmd.Context()); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "The app is written. Run it, and its tests:\n\n  cd %s\n  go run . dev\n  go test ./...\n", a.Dir)
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&language, "lang", "go", "language of the function: go, "+strings.Join(scaffold.Languages(), ", "))
	f.StringVar(&a.Module, "module", "", "path of the app's module (default: example.com/ and the name of the directory)")
	f.StringVar(&a.Template, "template", scaffold.Templates()[0], "template of the app: "+strings.Join(scaffold.Templates(), ", "))
	f.StringVar(&a.Halley, "halley", "", "directory of Halley's source (default: the one that the current module uses)")
	return c
}

// createProgram writes an app without Go. The templates of platforms are for binaries: their
// plans bring no interpreter.
func createProgram(cmd *cobra.Command, a scaffold.App, language string) error {
	for _, flag := range []string{"module", "halley", "template"} {
		if cmd.Flags().Changed(flag) {
			return fmt.Errorf("--%s is for apps in Go: leave it out; an app in %s has a Dockerfile for each platform that can start it", flag, language)
		}
	}
	if err := (scaffold.Program{Dir: a.Dir, Language: language}).Create(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "The app is written. Its README.md says how to install halley, run it and test it:\n\n  cd %s\n", a.Dir)
	return err
}

func newHandlerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "handler NAME",
		Short: "Write a handler of this app",
		Long: `Handler writes a package with a handler and its test, and adds it to the list
that the main package passes to app.Main or to app.Options. Run it in the
directory of the main package, for example with go run halley/function/app/new.
NAME has lower-case letters and digits.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return createHandler(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
}

// scaffoldedSettings are those of a new handler.
type scaffoldedSettings struct {
	Message string `split_words:"true"`
}

func openScaffolded(context.Context, handlers.Env, scaffoldedSettings) (trigger.Handler, func() error, error) {
	return nil, nil, nil
}

// createHandler writes a handler into the current directory and tells its settings.
func createHandler(ctx context.Context, name string, out io.Writer) error {
	entry := handlers.New(name, "", openScaffolded)
	if err := settings.CheckSettings(entry, settings.GlobalKeys()); err != nil {
		return err
	}
	files, err := scaffold.Handler{Name: name, Root: "."}.Create(ctx)
	if err != nil {
		return err
	}
	last := len(files) - 1
	for i := range files {
		files[i] = filepath.FromSlash(files[i])
	}
	_, err = fmt.Fprintf(out, `Wrote %[1]s, and a line in %[2]s. Settings of %[3]s:

  %[4]sMESSAGE         its own
  %[4]sCONTAINER_NAME  its container, if it is not that of HALLEY_CONTAINER_NAME

Other settings can be set for it alone in the same way; the command check lists them.
`, strings.Join(files[:last], ", "), files[last], name, entry.Prefix())
	return err
}
