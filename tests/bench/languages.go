package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"halley/tests/bench/report"
)

const pythonVersion = "4.17.1"

// installPython installs azure-cosmos from PyPI.
func (s *suite) installPython() error {
	environment := filepath.Join(s.cache, "python-"+pythonVersion)
	interpreter := filepath.Join(environment, "bin", "python")
	if _, err := output(s.ctx, "", interpreter, "-c", "import azure.cosmos"); err != nil {
		if _, err := output(s.ctx, "", "python3", "-m", "venv", environment); err != nil {
			return fmt.Errorf("azure-cosmos needs Python with venv: %w", err)
		}
		if _, err := output(s.ctx, "", interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "azure-cosmos=="+pythonVersion); err != nil {
			return fmt.Errorf("azure-cosmos for Python: %w", err)
		}
	}
	s.python = contender{name: colPython, command: []string{interpreter, filepath.Join(s.root, "tests", "bench", "peers", "python", "feed.py")},
		setup: func(*service) ([]string, error) { return []string{"PYTHONWARNINGS=ignore"}, nil }} // it does not verify certificates of loopback
	return nil
}

// language is one in which users write functions.
type language struct {
	name, sdk string    // sdk is the column of its official SDK
	loop      contender // of the SDK
	command   []string  // of a function with the library of the language
	env       []string
}

func (s *suite) languages() []language {
	peers := filepath.Join(s.root, "tests", "bench", "peers")
	return []language{
		{
			"Python", colPython, s.python, []string{"python3", "-m", "halley", "visit"},
			[]string{"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" + filepath.Join(s.root, "languages", "python") + string(os.PathListSeparator) + filepath.Join(peers, "python")},
		},
		{"JavaScript", colJavaScript, s.javaScript, []string{"node", filepath.Join(s.root, "languages", "typescript", "run.js"), filepath.Join(peers, "javascript", "visit.mjs")}, nil},
	}
}

// functionsInLanguages compares Halley and a function in another language with a loop of that
// language's SDK.
func (s *suite) functionsInLanguages() (report.Section, error) {
	section := report.Section{Title: "Functions in Python and JavaScript", Text: "Processor time in CPU-seconds for a million changes of 1 KB in one range. Halley's is that of the whole pipeline: the runtime with leases and checkpoints, in batches of the page's size, and the process of the function. " +
		"The SDK's is that of its pull loop alone, which has neither. The function and the loop look at each document."}
	v, err := s.serve("-changes", strconv.Itoa(longFeed))
	if err != nil {
		return section, err
	}
	defer v.close()
	for _, l := range s.languages() {
		if len(l.loop.command) == 0 {
			continue // named among the missing peers
		}
		command, err := json.Marshal(l.command)
		if err != nil {
			return section, err
		}
		halley := s.halley
		halley.setup = func(*service) ([]string, error) { return l.env, nil }
		for _, page := range []string{"1000", "100"} {
			found, err := s.interleave([]entrant{
				{l.sdk, l.loop, v, variables{"PAGE": page}},
				{colHalley, halley, v, variables{"MODE": "function", "PAGE": page, "CHANGES": strconv.Itoa(longFeed), "COMMAND": string(command)}},
			})
			if err != nil {
				return section, err
			}
			section.Rows = append(section.Rows, languageRow(found, l, page))
		}
	}
	return section, nil
}

func languageRow(found results, l language, page string) report.Row {
	cpu := func(column string) report.Samples { return found.of(column, "cpuPerMillion") }
	times := cpu(colHalley).Over(cpu(l.sdk)).Median()
	own := found.of(colHalley, "ownPerMillion").Median()
	return report.Row{
		Name:  fmt.Sprintf("%s, %s per page", l.name, page),
		Cells: map[string]string{l.sdk: report.Number(cpu(l.sdk).Median()), colHalley: report.Number(cpu(colHalley).Median())},
		Goals: []report.Goal{
			{Text: "≤ the SDK's loop", Got: times, Limit: 1},
			{Text: "≤ 0.7 × the SDK's loop", Got: times, Limit: 0.7, Obstacle: fmt.Sprintf("Halley's process takes %s, the function's the rest", report.Number(own))},
		},
	}
}
