package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosttest"
)

// checkSampleOf runs check --sample on a file with a text.
func checkSampleOf(t *testing.T, text string, env ...string) (string, error) {
	t.Helper()
	apptest.CleanEnv(t, apptest.Complete(env...))
	path := filepath.Join(t.TempDir(), "sample.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	root := testApp().Root([]string{"check", "--sample", path})
	var out bytes.Buffer
	root.SetOut(&out)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCheckSampleShowsVerdicts(t *testing.T) {
	text := `{"id":"1","score":150}` + "\n\n" + `{"id":"2","score":99.5}` + "\r\n" + `{"id":"3","score":1e2,"text":"\u001b[2J` + strings.Repeat("x", 200) + `"}`
	out, err := checkSampleOf(t, text, "HALLEY_FILTER", `{"score":[{"numeric":[">=",100]}]}`, "HALLEY_PUSH_FILTER", "")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, says := range []string{
		`leaderboard: HALLEY_FILTER {"score":[{"numeric":[">=",100]}]}`,
		`passes    line 1  {"id":"1","score":150}`,
		`filtered  line 3  {"id":"2","score":99.5}`,
		`passes    line 4  {"id":"3"`,
		"leaderboard: 2 of 3 documents pass\n",
		"push: HALLEY_PUSH_FILTER none",
		"push: 3 of 3 documents pass\n",
	} {
		if !strings.Contains(out, says) {
			t.Errorf("output lacks %q:\n%s", says, out)
		}
	}
	if strings.Contains(out, strings.Repeat("x", 100)) {
		t.Errorf("a document is printed whole:\n%s", out)
	}
}

func TestCheckSampleNamesWhatIsWrong(t *testing.T) {
	const filter = `{"id":["1"]}`
	for name, test := range map[string]struct {
		text, filter string
		says         []string // of output and error
	}{
		"no object":    {`{"id":"1"}` + "\n[1]\n" + `{"id"` + "\nnull\n", filter, []string{"FAIL  push: line 2: it is not a JSON object", "line 3", "line 4", "1 of 4 documents", "6 checks failed"}},
		"no documents": {"\n \n", filter, []string{"--sample", "one on each line"}},
		"filter":       {`{}`, `{"id":"1"}`, []string{"HALLEY_FILTER", `write ["1"]`}},
		"long line":    {`"` + strings.Repeat("x", maxSampleLine) + `"`, filter, []string{"--sample", "too long"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := checkSampleOf(t, test.text, "HALLEY_FILTER", test.filter)
			if err == nil {
				t.Fatalf("accepted\n%s", out)
			}
			for _, says := range test.says {
				if !strings.Contains(out+err.Error(), says) {
					t.Errorf("no %q in %v\n%s", says, err, out)
				}
			}
		})
	}
	apptest.CleanEnv(t, apptest.Complete())
	if err := checkSample(hosttest.Program().Source, filepath.Join(t.TempDir(), "missing.jsonl"), new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "missing.jsonl") {
		t.Errorf("a missing file: %v", err)
	}
}
