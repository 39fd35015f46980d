// Packages makes a wheel and an npm package of each archive of a release of
// function/standalone, which carry the binary and the library of the language.
//
//	go run ./scripts/packages [-version 1.2.3] DIR
//
// DIR has the archives halley-SYSTEM-ARCH.zip, as the command package --release writes them.
// They are replaced, and SHA256SUMS is written again; HALLEY_RELEASE_KEY signs it. The same
// archives give the same bytes.
package main

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	version := flag.String("version", "0.0.0", "version of the packages: three numbers")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: packages [-version 1.2.3] DIR")
		os.Exit(2)
	}
	files, err := write(flag.Arg(0), "languages", *version, os.Getenv("HALLEY_RELEASE_KEY"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(files, "\n"))
}

// file is one file of a package.
type file struct {
	name       string // with slashes
	content    []byte
	executable bool
}

// platform has the names of one platform: those of Go, of wheels and of Node.js.
// Wheels: https://packaging.python.org/specifications/platform-compatibility-tags. Binaries
// are static, so they need neither glibc nor musl. Go 1.26 needs macOS 12.
type platform struct{ system, arch, wheel, nodeSystem, nodeArch string }

var platforms = []platform{
	{"linux", "amd64", "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64", "linux", "x64"},
	{"linux", "arm64", "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64", "linux", "arm64"},
	{"darwin", "amd64", "macosx_12_0_x86_64", "darwin", "x64"},
	{"darwin", "arm64", "macosx_12_0_arm64", "darwin", "arm64"},
	{"windows", "amd64", "win_amd64", "win32", "x64"},
	{"windows", "arm64", "win_arm64", "win32", "arm64"},
}

var versionRule = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

// write makes the packages of all archives of a directory, and returns the files that it has
// written.
func write(dir, languages, version, key string) (files []string, err error) {
	if !versionRule.MatchString(version) {
		return nil, fmt.Errorf("-version %s: write three numbers, such as 1.2.3, which wheels and npm packages both know", version)
	}
	for _, p := range platforms {
		archive := filepath.Join(dir, fmt.Sprintf("halley-%s-%s.zip", p.system, p.arch))
		content, err := readArchive(archive)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", archive, err)
		}
		for _, pack := range []func(string, string, platform, []file) (string, []byte, error){wheel, npm} {
			name, packed, err := pack(languages, version, p, content)
			if err != nil {
				return nil, err
			}
			if err := os.WriteFile(filepath.Join(dir, name), packed, 0o644); err != nil {
				return nil, err
			}
			files = append(files, filepath.Join(dir, name))
		}
		if err := os.Remove(archive); err != nil {
			return nil, err
		}
	}
	if files == nil {
		return nil, fmt.Errorf("%s has no archive halley-SYSTEM-ARCH.zip: run go run ./function/standalone package --release %s", dir, dir)
	}
	return files, writeSums(dir, files, key)
}

// readArchive returns the files of an archive: the binary, licences and the list of modules.
func readArchive(path string) (files []file, err error) {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	for _, f := range archive.File {
		opened, err := f.Open()
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(opened)
		if err := errors.Join(err, opened.Close()); err != nil {
			return nil, err
		}
		files = append(files, file{name: f.Name, content: content, executable: strings.TrimSuffix(f.Name, ".exe") == "halley"})
	}
	if !slices.ContainsFunc(files, func(f file) bool { return f.executable }) {
		return nil, errors.New("it has no binary halley")
	}
	return files, nil
}

// writeSums writes SHA256SUMS and its signature, as the command package does.
func writeSums(dir string, files []string, key string) error {
	var sums bytes.Buffer
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), filepath.Base(path))
	}
	target := filepath.Join(dir, "SHA256SUMS")
	if err := os.WriteFile(target, sums.Bytes(), 0o644); err != nil {
		return err
	}
	if key == "" {
		if err := os.Remove(target + ".sig"); !errors.Is(err, os.ErrNotExist) { // of the archives
			return err
		}
		return nil
	}
	block, _ := pem.Decode([]byte(key))
	if block == nil {
		return errors.New("HALLEY_RELEASE_KEY has no PEM block")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	signer, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return errors.New("HALLEY_RELEASE_KEY is not an Ed25519 key in PKCS #8")
	}
	return os.WriteFile(target+".sig", ed25519.Sign(signer, sums.Bytes()), 0o644)
}
