package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// wheel returns a wheel: https://packaging.python.org/specifications/binary-distribution-format.
// pip installs the binary among the scripts of the environment.
func wheel(languages, version string, p platform, content []file) (name string, packed []byte, err error) {
	files, err := library(filepath.Join(languages, "python"), func(name string) bool {
		return strings.HasPrefix(name, "halley/") && (path.Ext(name) == ".py" || path.Base(name) == "py.typed")
	})
	if err != nil {
		return "", nil, err
	}
	info := fmt.Sprintf("halley-%s.dist-info/", version)
	for _, f := range content {
		f.name = info + "licenses/" + f.name
		if f.executable {
			f.name = fmt.Sprintf("halley-%s.data/scripts/%s", version, path.Base(f.name))
		}
		files = append(files, f)
	}
	tags := "py3-none-" + p.wheel
	var tagLines strings.Builder
	for tag := range strings.SplitSeq(p.wheel, ".") {
		fmt.Fprintf(&tagLines, "Tag: py3-none-%s\n", tag)
	}
	files = append(files,
		file{name: info + "METADATA", content: fmt.Appendf(nil, "Metadata-Version: 2.1\nName: halley\nVersion: %s\nSummary: Functions that Halley calls with the changes of an Azure Cosmos DB container\nLicense: MIT\nRequires-Python: >=3.9\n", version)},
		file{name: info + "WHEEL", content: []byte("Wheel-Version: 1.0\nGenerator: halley\nRoot-Is-Purelib: false\n" + tagLines.String())},
	)
	var record strings.Builder
	for _, f := range files {
		sum := sha256.Sum256(f.content)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.content))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	files = append(files, file{name: info + "RECORD", content: []byte(record.String())})
	packed, err = zipped(files)
	return fmt.Sprintf("halley-%s-%s.whl", version, tags), packed, err
}

// zipTime is the time of all files in a package: the earliest that a zip file has.
var zipTime = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

func zipped(files []file) ([]byte, error) {
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: zipTime}
		header.SetMode(f.mode())
		entry, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return packed.Bytes(), err
}

func (f file) mode() fs.FileMode {
	if f.executable {
		return 0o755
	}
	return 0o644
}

// library returns the files of a directory that belong to a package.
func library(dir string, isPart func(name string) bool) (files []file, err error) {
	root := os.DirFS(dir)
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isPart(name) {
			return err
		}
		content, err := fs.ReadFile(root, name)
		files = append(files, file{name: name, content: content})
		return err
	})
	return files, err
}
