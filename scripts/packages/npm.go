package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// npm returns an npm package, which is a tar file with the directory package. The binary is
// its command halley: npm refuses the package on other platforms.
func npm(languages, version string, p platform, content []file) (name string, packed []byte, err error) {
	files, err := library(filepath.Join(languages, "typescript"), func(name string) bool {
		return slices.Contains([]string{".js", ".ts", ".json"}, path.Ext(name)) && !strings.Contains(name, "/")
	})
	if err != nil {
		return "", nil, err
	}
	for _, f := range content {
		if f.executable {
			f.name = "bin/" + f.name
		}
		files = append(files, f)
	}
	for i, f := range files {
		if f.name != "package.json" {
			continue
		}
		if files[i].content, err = packageJSON(f.content, version, p); err != nil {
			return "", nil, err
		}
	}
	packed, err = tarred(files)
	return fmt.Sprintf("halley-%s-%s-%s.tgz", version, p.nodeSystem, p.nodeArch), packed, err
}

// packageJSON adds version and platform to package.json.
func packageJSON(text []byte, version string, p platform) ([]byte, error) {
	var described map[string]any
	if err := json.Unmarshal(text, &described); err != nil {
		return nil, fmt.Errorf("package.json: %w", err)
	}
	described["version"], described["os"], described["cpu"] = version, []string{p.nodeSystem}, []string{p.nodeArch}
	binary := "bin/halley"
	if p.system == "windows" {
		binary += ".exe"
	}
	described["bin"] = map[string]string{"halley": binary}
	delete(described, "files")
	return json.MarshalIndent(described, "", "  ")
}

func tarred(files []file) ([]byte, error) {
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	w := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{Name: "package/" + f.name, Mode: int64(f.mode()), Size: int64(len(f.content)), ModTime: zipTime, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err := compressed.Close()
	return packed.Bytes(), err
}
