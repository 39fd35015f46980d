package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEachPlatformHasItsPackages(t *testing.T) {
	dir := t.TempDir()
	writeArchive(t, dir, "linux", "arm64", []byte("binary"))
	files, err := write(dir, "../../languages", "1.2.3", "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	want := []string{"halley-1.2.3-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl", "halley-1.2.3-linux-arm64.tgz"}
	if !slices.Equal(names, want) {
		t.Errorf("files are %v", names)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil || strings.Count(string(sums), "\n") != 2 {
		t.Errorf("checksums are %q, %v", sums, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "halley-linux-arm64.zip")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the archive is left, without a checksum")
	}
	checkWheel(t, files[0])
	checkNPM(t, files[1])
}

// checkWheel verifies that RECORD lists each file with its checksum, as pip does.
func checkWheel(t *testing.T, path string) {
	t.Helper()
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	record, err := archive.Open("halley-1.2.3.dist-info/RECORD")
	if err != nil {
		t.Fatal(err)
	}
	listed, err := io.ReadAll(record)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range archive.File {
		found[f.Name] = true
		opened, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(opened)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		line := fmt.Sprintf("%s,sha256=%s,%d\n", f.Name, base64.RawURLEncoding.EncodeToString(sum[:]), len(content))
		if !strings.HasSuffix(f.Name, "/RECORD") && !strings.Contains(string(listed), line) {
			t.Errorf("RECORD does not have %q", line)
		}
	}
	for _, name := range []string{"halley/__init__.py", "halley/__main__.py", "halley/py.typed", "halley-1.2.3.data/scripts/halley", "halley-1.2.3.dist-info/licenses/LICENSE"} {
		if !found[name] {
			t.Errorf("the wheel has no %s: %v", name, found)
		}
	}
}

func checkNPM(t *testing.T, path string) {
	t.Helper()
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	uncompressed, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	var described struct {
		Version string
		OS, CPU []string
		Bin     map[string]string
	}
	for reader := tar.NewReader(uncompressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = header.Mode
		if header.Name == "package/package.json" {
			if err := json.NewDecoder(reader).Decode(&described); err != nil {
				t.Fatal(err)
			}
		}
	}
	if described.Version != "1.2.3" || described.OS[0] != "linux" || described.CPU[0] != "arm64" || described.Bin["halley"] != "bin/halley" {
		t.Errorf("package.json is %+v", described)
	}
	for name, mode := range map[string]int64{"package/index.js": 0o644, "package/index.d.ts": 0o644, "package/run.js": 0o644, "package/bin/halley": 0o755, "package/LICENSE": 0o644} {
		if found[name] != mode {
			t.Errorf("%s has mode %o, want %o", name, found[name], mode)
		}
	}
}

func TestBadReleasesAreRefused(t *testing.T) {
	dir := t.TempDir()
	for version, want := range map[string]string{"v1.2": "write three numbers", "1.2.3": "has no archive halley-SYSTEM-ARCH.zip: run go run ./function/standalone package --release"} {
		if _, err := write(dir, "../../languages", version, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("version %s: error is %v, want %s", version, err, want)
		}
	}
	writeArchive(t, dir, "linux", "amd64", nil)
	if _, err := write(dir, "../../languages", "1.2.3", "a key"); err == nil || !strings.Contains(err.Error(), "HALLEY_RELEASE_KEY has no PEM block") {
		t.Errorf("error is %v", err)
	}
}
