//go:build ignore

// Zip packs a Functions app for the Functions host on Linux. It checks that
// host.json names a file of the package, and sets the run bit of that file. Core
// Tools sets the bit only if the entry's name equals defaultExecutablePath
// (azure-functions-core-tools, ZipHelper).
//
//	go run scripts/zip.go DIRECTORY FILE.zip
package main

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fail(errors.New("give a directory and a file to write"))
	}
	dir, target := os.Args[1], os.Args[2]
	executable, err := executableName(dir)
	if err != nil {
		fail(err)
	}
	names, err := pack(dir, target, executable)
	if err == nil {
		err = verify(names, executable)
	}
	if err != nil {
		fail(errors.Join(err, os.Remove(target)))
	}
	fmt.Println(target)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "package:", err)
	os.Exit(1)
}

// executableName returns defaultExecutablePath of host.json, "" if it is missing.
func executableName(dir string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, "host.json"))
	if err != nil {
		return "", err
	}
	var host struct {
		CustomHandler struct {
			Description struct{ DefaultExecutablePath string }
		}
	}
	if err := json.Unmarshal(data, &host); err != nil {
		return "", fmt.Errorf("host.json: %w", err)
	}
	return host.CustomHandler.Description.DefaultExecutablePath, nil
}

// verify returns an error if the package lacks a file that the host needs.
func verify(names []string, executable string) error {
	if !slices.Contains(names, executable) {
		return fmt.Errorf("host.json names the executable %q, which is not among %q", executable, names)
	}
	for _, name := range names {
		if match, _ := filepath.Match("*/function.json", name); match {
			return nil
		}
	}
	return fmt.Errorf("no function.json among %q", names)
}

// pack writes the regular files of dir, in order and with the same time each, so
// that equal files make equal packages.
func pack(dir, target, executable string) (names []string, err error) {
	out, err := os.Create(target)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	archive := zip.NewWriter(out)
	defer func() { err = errors.Join(err, archive.Close()) }()
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		names = append(names, name)
		return add(archive, path, name, name == executable)
	})
	return names, err
}

// oldest is the earliest time that a zip file can represent.
var oldest = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

func add(archive *zip.Writer, path, name string, run bool) error {
	header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: oldest}
	header.SetMode(0o666)
	if run {
		header.SetMode(0o777)
	}
	entry, err := archive.CreateHeader(header)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(entry, file)
	return err
}
