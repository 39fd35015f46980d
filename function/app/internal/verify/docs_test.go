package verify

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"halley/trigger/emulator"
)

var update = flag.Bool("update", false, "write the run and the facts of docs/verify.md again")

const verifyPage = "../../../../docs/verify.md"

// The page has the facts of the code, and a run with the same rows and verdicts. The
// last column and the charges are those of the run that was written.
func TestDocumentedFactsAndRun(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		report, err := Run(t.Context(), options(t, account.Endpoint(), account))
		verified(t, report, err)
		var out strings.Builder
		if err := report.Write(&out); err != nil {
			t.Fatal(err)
		}
		run := "```\n" + regexp.MustCompile(` +\n`).ReplaceAllString(out.String(), "\n") + "```\n"
		text, err := os.ReadFile(verifyPage)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			text = section(t, section(t, text, "run", run), "facts", factTable())
			if err := os.WriteFile(verifyPage, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if written := between(t, text, "facts"); written != factTable() {
			t.Errorf("%s does not have the facts of the code: run with -update", verifyPage)
		}
		written := strings.Split(between(t, text, "run"), "\n")
		for i, line := range strings.Split(run, "\n") {
			if cells := regexp.MustCompile(` {2,}`).Split(line, -1); len(cells) == 4 && (i >= len(written) || !strings.HasPrefix(written[i], cells[0]+"  ") || !strings.Contains(written[i], "  "+cells[1]+"  ")) {
				t.Errorf("%s does not have the row %q: run with -update", verifyPage, line)
			}
		}
	})
}

func marks(t *testing.T, text []byte, name string) (before, inside, after string) {
	t.Helper()
	parts := regexp.MustCompile(`(?s)^(.*<!-- ` + name + `:[^\n]*-->\n)(.*)(<!-- /` + name + ` -->.*)$`).FindSubmatch(text)
	if parts == nil {
		t.Fatalf("%s has no marks around the %s", verifyPage, name)
	}
	return string(parts[1]), string(parts[2]), string(parts[3])
}

func between(t *testing.T, text []byte, name string) string {
	_, inside, _ := marks(t, text, name)
	return inside
}

func section(t *testing.T, text []byte, name, content string) []byte {
	before, _, after := marks(t, text, name)
	return []byte(before + content + after)
}

// factTable is the table of all facts as Markdown.
func factTable() string {
	var b strings.Builder
	b.WriteString("| Fact | Halley relies on it for | Expected | If it differs |\n| --- | --- | --- | --- |\n")
	for _, f := range facts() {
		meaning := f.meaning
		if f.grave {
			meaning = "**do not use**: " + meaning
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.name, f.relies, f.expected, meaning)
	}
	return b.String()
}
