//go:build !nodev

package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"halley/function/app/internal/functions"
	"halley/function/app/internal/packaging"
)

// releaseKey is the variable with the key that signs a release.
const releaseKey = "HALLEY_RELEASE_KEY"

// packageCommand returns the command package of the app with this name.
func packageCommand(name string) *cobra.Command {
	p := packaging.Options{Root: ".", Main: mainPackage()}
	var release string
	c := &cobra.Command{
		Use:   "package",
		Short: "Build a zip file for deployment",
		Long: `Package builds the app for Azure Functions on Linux: a zip file with the static
binary under the name that host.json gives it, host.json, function.json of each
function, the licences of all modules in the binary, and a list of them (SPDX
2.3). With --lambda the zip file is for AWS Lambda (provided.al2023), and its
binary is called bootstrap. With --page the app also serves the operators' page,
below /api/status/: set HALLEY_PAGE_TOKEN, which every viewer needs. With --fanout
the app spreads its ranges over instances through a queue: the timer's function
gets a queue output, the function drain is added, and host.json names the
extension bundle: set HALLEY_MODE=fanout.

Run it in the directory of host.json, on any system that has Go. The binary has
no commands for development. The same source and the same Go give the same
bytes, whatever GOFLAGS and similar settings are.

With --release it writes archives for the machines of developers and operators
instead: the binary with all commands for Linux, macOS and Windows on amd64 and
arm64, and their checksums. If ` + releaseKey + ` has an Ed25519 private key in PEM,
they are signed, and openssl verifies them:

  openssl pkeyutl -verify -pubin -inkey release.pub -rawin -in SHA256SUMS \
    -sigfile SHA256SUMS.sig && sha256sum -c SHA256SUMS`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.Stderr = cmd.ErrOrStderr()
			if release != "" {
				return writeRelease(cmd, name, release)
			}
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
	f.BoolVar(&p.Page, "page", false, "add the HTTP function status: the operators' page")
	f.BoolVar(&p.Fanout, "fanout", false, "add the function drain and its queue, for HALLEY_MODE=fanout")
	f.StringVar(&p.Arch, "arch", "amd64", "processor: amd64 or arm64")
	f.StringVarP(&p.Target, "output", "o", "", "file to write (default: dist/ and the name of the executable)")
	f.StringVar(&release, "release", "", "directory for the archives of a release")
	c.MarkFlagsMutuallyExclusive("release", "lambda")
	c.MarkFlagsMutuallyExclusive("release", "arch")
	c.MarkFlagsMutuallyExclusive("release", "output")
	return c
}

// writeRelease builds the archives of a release and prints their names.
func writeRelease(cmd *cobra.Command, name, target string) error {
	r := packaging.Release{Root: ".", Main: mainPackage(), Name: name, Target: target, Stderr: cmd.ErrOrStderr()}
	if text := os.Getenv(releaseKey); text != "" {
		key, err := packaging.ParseKey(text)
		if err != nil {
			return fmt.Errorf("%s: %w", releaseKey, err)
		}
		r.Key = key
	} else {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s is not set: the checksums are not signed\n", releaseKey)
	}
	files, err := r.Write(cmd.Context())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(files, "\n"))
	return err
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
		_, err = functions.CheckHostJSON(data)
	}
	return err
}
