//go:build !nodev

package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"

	"halley/function/app/internal/packaging"
)

func packageCommand() *cobra.Command {
	p := packaging.Options{Root: ".", Main: mainPackage()}
	c := &cobra.Command{
		Use:   "package",
		Short: "Build a zip file for deployment",
		Long: `Package builds the app for Azure Functions on Linux: a zip file with the static
binary under the name that host.json gives it, host.json, function.json of each
function, the licences of all modules in the binary, and a list of them (SPDX
2.3). With --lambda the zip file is for AWS Lambda (provided.al2023), and its
binary is called bootstrap.

Run it in the directory of host.json, on any system that has Go. The binary has
no commands for development. The same source and the same Go give the same
bytes, whatever GOFLAGS and similar settings are.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.Stderr = cmd.ErrOrStderr()
			if err := checkRoot(p); err != nil {
				return err
			}
			target, err := packaging.Write(cmd.Context(), p)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), target)
			return err
		},
	}
	f := c.Flags()
	f.BoolVar(&p.Lambda, "lambda", false, "build for AWS Lambda")
	f.StringVar(&p.Arch, "arch", "amd64", "processor: amd64 or arm64")
	f.StringVarP(&p.Target, "output", "o", "", "file to write (default: dist/ and the name of the executable)")
	return c
}

// mainPackage returns the main package of this program, as go build takes it.
func mainPackage() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Path == "" || info.Path == "command-line-arguments" {
		return "."
	}
	return info.Path
}

// checkRoot refuses a Functions app that the Functions host could not run. It leaves
// it to package packaging to miss a file.
func checkRoot(p packaging.Options) error {
	data, err := os.ReadFile(filepath.Join(p.Root, "host.json"))
	if p.Lambda || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = checkHostJSON(data)
	}
	return err
}
