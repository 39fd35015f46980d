// Package packaging builds an app for deployment: a zip file with the static binary
// for Linux, the licences of all modules in it, and a list of these modules (SPDX).
//
// The same source and the same Go give the same bytes. Settings of the environment
// and of go env -w that would change the binary, such as GOFLAGS, have no effect.
package packaging

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Options describe a package. Root and Main are required.
type Options struct {
	Root   string // directory of the app with its host.json, inside its module
	Main   string // main package: an import path, or a path that begins with "."
	Lambda bool   // for AWS Lambda instead of Azure Functions
	Page   bool   // add the HTTP function of the operators' page
	Fanout bool   // spread ranges over instances through a queue
	Arch   string // GOARCH of the binary; amd64 if empty
	Target string // file to write; a file in Root/dist, named after the executable, if empty

	Stderr io.Writer // gets the messages of the go command; nothing if nil
}

// pageFile is function.json of the operators' page, and PageFunction its content. The page
// itself asks for its token, so the Functions host asks for no key.
const (
	pageFile     = "status/function.json"
	PageFunction = `{
  "bindings": [
    {"type": "httpTrigger", "direction": "in", "name": "req", "authLevel": "anonymous", "methods": ["get", "post"], "route": "status/{*path}"},
    {"type": "http", "direction": "out", "name": "res"}
  ]
}
`
)

// lambdaExecutable is the name that AWS Lambda's runtimes for binaries give to the
// executable (https://docs.aws.amazon.com/lambda/latest/dg/golang-package.html).
const lambdaExecutable = "bootstrap"

// Write builds the package and returns the path of its zip file. A package for Azure
// Functions holds the executable under the name that host.json gives it, host.json,
// and function.json of each function; a package for AWS Lambda holds the executable
// alone, as bootstrap. Both hold licences and the list of modules. An error leaves no
// file behind.
func Write(ctx context.Context, o Options) (target string, err error) {
	if o.Page && o.Lambda {
		return "", errors.New("a package for AWS Lambda has no page: leave out --page or --lambda")
	}
	if o.Fanout && o.Lambda {
		return "", errors.New("a package for AWS Lambda has no queue: leave out --fanout or --lambda")
	}
	files, executable, err := o.appFiles()
	if err != nil {
		return "", err
	}
	stage, err := os.MkdirTemp("", "package-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()

	build, err := newToolchain(ctx, o.Root, platform{"linux", cmp.Or(o.Arch, "amd64")}, o.Stderr)
	if err != nil {
		return "", err
	}
	if err := build.addBinary(files, o.Main, deployTags, stage, executable); err != nil {
		return "", err
	}
	if o.Page {
		files[pageFile] = filepath.Join(stage, "page.json")
		if err := os.WriteFile(files[pageFile], []byte(PageFunction), 0o600); err != nil {
			return "", err
		}
	}
	if o.Fanout {
		if err := addFanout(files, stage, executable); err != nil {
			return "", err
		}
	}

	target = cmp.Or(o.Target, o.defaultTarget(executable))
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return "", err
	}
	return target, writeZip(target, files, executable)
}

// addBinary builds the main package in a directory, and adds the executable, the licences
// and the list of modules to files.
func (t *toolchain) addBinary(files map[string]string, main, tags, dir, executable string) error {
	binary := filepath.Join(dir, path.Base(executable))
	if err := t.binary(main, tags, binary); err != nil {
		return err
	}
	if err := t.describe(binary, dir); err != nil {
		return err
	}
	files[executable] = binary
	for _, name := range []string{licenseFile, sbomFile} {
		files[name] = filepath.Join(dir, name)
	}
	return nil
}

// appFiles returns the files of the app by their names in the package, without the
// binary, and the name of the executable.
func (o Options) appFiles() (files map[string]string, executable string, err error) {
	files = map[string]string{}
	if license := filepath.Join(o.Root, "LICENSE"); isFile(license) {
		files["LICENSE"] = license
	}
	if o.Lambda {
		return files, lambdaExecutable, nil
	}
	if executable, err = Executable(o.Root); err != nil {
		return nil, "", err
	}
	functions, err := functionFiles(o.Root)
	if err != nil {
		return nil, "", err
	}
	for _, name := range append(functions, "host.json") {
		files[name] = filepath.Join(o.Root, filepath.FromSlash(name))
	}
	return files, executable, nil
}

// defaultTarget names the zip file after the app's executable.
func (o Options) defaultTarget(executable string) string {
	name := executable
	if o.Lambda {
		name = path.Base(strings.TrimRight(o.Main, "./")) + "-lambda"
		if own, err := Executable(o.Root); err == nil {
			name = own + "-lambda"
		}
	}
	return filepath.Join(o.Root, "dist", path.Base(name)+".zip")
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
