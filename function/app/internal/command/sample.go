package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
	"halley/trigger"
)

// sampleLine is a line of a file of sample documents.
type sampleLine struct {
	number   int // from 1
	document []byte
}

// maxSampleLine bounds a line in bytes. A document of Cosmos DB has at most 2 MiB.
const maxSampleLine = 16 << 20

// readSample reads the lines of a file that are not blank.
func readSample(path string) (lines []sampleLine, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, maxSampleLine)
	for number := 1; scanner.Scan(); number++ {
		if line := bytes.TrimSpace(scanner.Bytes()); len(line) > 0 {
			lines = append(lines, sampleLine{number, bytes.Clone(line)})
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s has no documents: write one on each line, as JSON", path)
	}
	return lines, nil
}

// errNoObject is the error of a sample that no document can be.
var errNoObject = errors.New("it is not a JSON object: write each document on one line")

// sample prints for each document if it passes the filter of a function.
func (r *report) sample(f settings.Function, documents []sampleLine) {
	passes, err := trigger.Filter(f.Filter).Compile()
	if err != nil { // the settings are valid
		r.line(f.Name+": filter", err)
		return
	}
	filter := f.Filter.String()
	if filter == "" {
		filter = "none, so that all changes pass"
	}
	fmt.Fprintf(r.out, "%s: %s %s\n", f.Name, f.Variable("FILTER"), text.Line(filter))
	passed := 0
	for _, d := range documents {
		where := fmt.Sprintf("%s: line %d", f.Name, d.number)
		if d.document[0] != '{' || !json.Valid(d.document) {
			r.line(where, errNoObject)
			continue
		}
		verdict := "filtered"
		if passes(trigger.Change{Document: d.document}) {
			verdict = "passes"
			passed++
		}
		fmt.Fprintf(r.out, "%-8s  line %d  %s\n", verdict, d.number, text.Cell(string(d.document)))
	}
	fmt.Fprintf(r.out, "%s: %d of %d documents pass\n\n", f.Name, passed, len(documents))
}
