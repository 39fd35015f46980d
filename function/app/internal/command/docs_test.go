package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"halley/function/app/internal/hosttest"
	"halley/trigger/emulator"
)

// documents returns the README and the pages of docs, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"../../../../docs/*.md", "../../../../docs/*/*.md", "../../../../docs/*/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	if len(paths) == 0 {
		t.Fatal("no pages")
	}
	texts := map[string]string{}
	for _, path := range append(paths, "../../../../README.md", "../../../../CHANGELOG.md", "../../../../CONTRIBUTING.md", "../../../../SECURITY.md", "../../../../tests/README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(text)
	}
	return texts
}

// matches returns the submatches of a pattern in all documents, with their paths.
func matches(t *testing.T, pattern string) (found [][]string, paths []string) {
	t.Helper()
	for path, text := range documents(t) {
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found, paths = append(found, match), append(paths, path)
		}
	}
	return found, paths
}

// Every name of a setting in the documents is one.
func TestDocumentsNameSettings(t *testing.T) {
	known := append(hosttest.Program().Source.Variables(), releaseKey) // a variable of a command
	names, paths := matches(t, "`((?:HALLEY)?_[A-Z_]+[A-Z])[`=]")
	for i, match := range names {
		name := "HALLEY" + strings.TrimPrefix(match[1], "HALLEY")
		isProgram := strings.HasPrefix(name, "HALLEY_ORDERS_") // of function/standalone, whose pages are run by scripts/packages
		internal := isProgram || strings.HasSuffix(paths[i], "CHANGELOG.md") || strings.HasPrefix(name, "HALLEY_TEST_") ||
			strings.Contains(paths[i], "docs/handlers/") || strings.Contains(paths[i], "docs/examples/") || strings.HasSuffix(paths[i], "docs/use-cases.md") // the showcase has them
		if !internal && !slices.Contains(known, name) && !strings.HasPrefix(name, "HALLEY_GREET_") {
			t.Errorf("%s names %s, which is not a setting", paths[i], name)
		}
	}
}

// Each block of Go is code of the file that is named above it, except for comments.
func TestDocumentedCode(t *testing.T) {
	blocks, paths := matches(t, "(?s)(?:<!-- code: (\\S+) -->\n)?```go\n(.*?)```")
	if len(blocks) == 0 {
		t.Fatal("no block of Go")
	}
	for i, block := range blocks {
		if block[1] == "" {
			t.Errorf("%s does not say which file has this code:\n%s", paths[i], block[2])
			continue
		}
		source, err := os.ReadFile("../../../../" + block[1])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(bare(string(source)), bare(block[2])) {
			t.Errorf("%s: not the code of %s:\n%s", paths[i], block[1], block[2])
		}
	}
}

// bare is code without comments and blank lines.
func bare(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "//") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Every link leads to a file, and to a heading of it if it names one.
func TestDocumentedLinks(t *testing.T) {
	links, paths := matches(t, `\]\(([^)\s]+)\)`)
	for i, link := range links {
		if strings.HasPrefix(link[1], "https://") {
			continue
		}
		file, heading, _ := strings.Cut(link[1], "#")
		target := paths[i]
		if file != "" {
			target = filepath.Join(filepath.Dir(paths[i]), file)
		}
		text, err := os.ReadFile(target)
		if stat, _ := os.Stat(target); stat != nil && stat.IsDir() {
			err = nil
		}
		if err != nil {
			t.Errorf("%s links to %s: %v", paths[i], link[1], err)
		} else if heading != "" && !slices.Contains(anchors(string(text)), heading) {
			t.Errorf("%s links to %s, but the file has no such heading", paths[i], link[1])
		}
	}
}

// anchors returns the fragments that name the headings of a text, as GitHub makes them.
func anchors(text string) (fragments []string) {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		plain := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		fragments = append(fragments, strings.ReplaceAll(plain, " ", "-"))
	}
	return fragments
}

// Every command has a row in docs/commands.md, and every flag there exists.
func TestDocumentedCommands(t *testing.T) {
	text := documents(t)["../../../../docs/commands.md"]
	root := testApp().Root(nil)
	root.AddCommand(NewCommand(), VerifyServiceCommand()) // as the demo does
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.HasSubCommands() {
				walk(sub)
				continue
			}
			if sub.Name() == "help" || sub.Name() == "completion" {
				continue
			}
			if row := "| `" + sub.CommandPath(); !strings.Contains(text, row) {
				t.Errorf("docs/commands.md has no row for %s", sub.CommandPath())
			}
		}
	}
	walk(root)
	for _, flag := range regexp.MustCompile("--[a-z][a-z-]*").FindAllString(text, -1) {
		if !hasFlag(root, strings.TrimPrefix(flag, "--")) {
			t.Errorf("no command has the flag %s", flag)
		}
	}
}

func hasFlag(c *cobra.Command, name string) bool {
	if c.Flags().Lookup(name) != nil || c.PersistentFlags().Lookup(name) != nil {
		return true
	}
	return slices.ContainsFunc(c.Commands(), func(sub *cobra.Command) bool { return hasFlag(sub, name) })
}

// The faults that the documents post are valid.
func TestDocumentedFaults(t *testing.T) {
	faults, _ := matches(t, `curl -d '([^']+)' \S+/_emulator/faults`)
	if len(faults) == 0 {
		t.Fatal("no document posts a fault")
	}
	for _, fault := range faults {
		var f emulator.Fault
		if err := json.Unmarshal([]byte(fault[1]), &f); err != nil {
			t.Errorf("%s: %v", fault[1], err)
		} else if err := f.Check(); err != nil {
			t.Errorf("%s: %v", fault[1], err)
		}
	}
}

// The README names every script, and no other.
func TestReadmeNamesScripts(t *testing.T) {
	scripts, err := filepath.Glob("../../../../scripts/*")
	if err != nil {
		t.Fatal(err)
	}
	text := documents(t)["../../../../README.md"]
	for _, script := range scripts {
		if name := filepath.Base(script); filepath.Ext(name) == "" && !strings.Contains(text, "`scripts/"+name+"`") {
			t.Errorf("the README does not name scripts/%s", name)
		}
	}
	for _, name := range regexp.MustCompile("`scripts/([a-z]+)`").FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat("../../../../scripts/" + name[1]); err != nil {
			t.Error(err)
		}
	}
}
