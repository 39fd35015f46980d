package scaffold

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestProgramHasItsFiles(t *testing.T) {
	common := []string{".dockerignore", ".gitignore", "Dockerfile", "Dockerfile.functions", "README.md", "dev/orders.jsonl", "function/function.json", "halley.json", "host.json"}
	for language, files := range map[string][]string{
		"python":     {"orders.py", "requirements.txt", "test_orders.py"},
		"typescript": {"orders.js", "orders.test.js", "package.json", "tsconfig.json"},
	} {
		dir := filepath.Join(t.TempDir(), "shop")
		if err := (Program{Dir: dir, Language: language}).Create(); err != nil {
			t.Fatal(err)
		}
		var got []string
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				name, _ := filepath.Rel(dir, path)
				got = append(got, filepath.ToSlash(name))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		want := append(files, common...)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: files are %v, want %v", language, got, want)
		}
		for _, name := range want {
			text := readFile(t, dir, name)
			if strings.Contains(string(text), "[[") {
				t.Errorf("%s: a key is left in %s", language, name)
			}
			if filepath.Ext(name) == ".json" && !json.Valid(text) {
				t.Errorf("%s: %s is not JSON", language, name)
			}
		}
	}
}

func TestBadProgramsAreRefused(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		program Program
		want    string
	}{
		{Program{filepath.Join(dir, "shop"), "rust"}, "--lang rust: choose from python, typescript, go"},
		{Program{filepath.Join(dir, "1"), "python"}, "begin it with a letter"},
		{Program{filepath.Dir(dir), "python"}, "is not empty: name a new directory"},
	} {
		if err := test.program.Create(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error is %v, want %s", err, test.want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v: written: %v", err, entries)
	}
}
