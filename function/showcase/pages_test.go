package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/kelseyhightower/envconfig"

	"halley/handlers"
	"halley/handlers/search/opensearch"
)

// Every setting that a page of a handler names is a setting of that handler, or one that
// all functions have. HALLEY_CHANNEL is for the process of a function in another language.
func TestPagesNameSettings(t *testing.T) {
	cleanEnv(t)
	general, err := os.ReadFile("../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	entries := []handlers.Entry{handlers.New("search", "", opensearch.Open)} // as its page calls it
	for _, r := range rows() {
		entries = append(entries, r.entry)
	}
	for page, text := range pagesOfHandlers(t) {
		for _, match := range regexp.MustCompile(`\b(HALLEY_[A-Z_]+[A-Z])\b`).FindAllStringSubmatch(text, -1) {
			if name := match[1]; name != "HALLEY_CHANNEL" && !strings.HasPrefix(name, "HALLEY_TEST_") && !isSetting(t, entries, string(general), name) {
				t.Errorf("%s names %s, which is not a setting", page, name)
			}
		}
	}
}

// Each page of a handler, and the documentation of its package, says what becomes of a
// delete and of an expiry, and the page in which mode.
func TestPagesSayWhatDeletesDo(t *testing.T) {
	for page, text := range pagesOfHandlers(t) {
		_, section, _ := strings.Cut(text, "\n## Deletes\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if !strings.Contains(section, "expir") || !regexp.MustCompile("(?i)all-versions mode|both modes").MatchString(section) {
			t.Errorf("%s: the section Deletes does not say what a delete and an expiry do in all-versions mode", page)
		}
	}
	for _, r := range rows() {
		name := strings.TrimPrefix(reflect.TypeOf(r.entry.Settings()).Elem().PkgPath(), "halley/")
		documentation := ""
		files, err := filepath.Glob("../../" + name + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			documentation += parsed.Doc.Text()
		}
		if !strings.Contains(documentation, "elete") || !strings.Contains(documentation, "expir") {
			t.Errorf("the documentation of package %s does not say what a delete and an expiry do", name)
		}
	}
}

// pagesOfHandlers returns the pages of all handlers, by their paths.
func pagesOfHandlers(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/handlers/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	pages := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages[path] = string(text)
	}
	return pages
}

// isSetting reports whether a name is a general setting, or one for a single function,
// which may have another name than its handler has here.
func isSetting(t *testing.T, entries []handlers.Entry, general, name string) bool {
	t.Helper()
	_, suffix, _ := strings.Cut(strings.TrimPrefix(name, "HALLEY_"), "_")
	if strings.Contains(general, "`"+name+"`") || strings.Contains(general, "`HALLEY_"+suffix+"`") || strings.Contains(general, "`_"+suffix+"`") {
		return true
	}
	for _, e := range entries {
		t.Setenv(e.Prefix()+suffix, "x")
		err := envconfig.CheckDisallowed(strings.TrimSuffix(e.Prefix(), "_"), e.Settings())
		os.Unsetenv(e.Prefix() + suffix)
		if err == nil {
			return true
		}
	}
	return false
}
