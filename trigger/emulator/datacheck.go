package emulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// DataReport counts what [CheckData] has found in a directory.
type DataReport struct{ Pages, Databases, Containers, Items int }

// maxProblems is how many damaged records CheckData names.
const maxProblems = 10

// CheckData reads the data of an account ([Options.Data]) without changing them. It
// fails if another emulator uses the directory, if a page is damaged, or if a record
// cannot be read; the error names the file, the page or the record, and what to do.
func CheckData(directory string) (DataReport, error) {
	var report DataReport
	var problems []error
	file := filepath.Join(directory, dataFile)
	pages, err := checkData(file, func(bucket string, key, value []byte) error {
		if len(problems) < maxProblems {
			if err := report.count(bucket, key, value); err != nil {
				problems = append(problems, fmt.Errorf("%s: record %q of %s: %w", file, key, bucket, err))
			}
		}
		return nil
	})
	report.Pages = pages
	if err == nil && problems != nil {
		err = fmt.Errorf("%w\nRestore the file from a copy, or move it away and begin with an empty account", errors.Join(problems...))
	}
	return report, err
}

// count checks a record and counts it by its kind.
func (r *DataReport) count(bucket string, key, value []byte) error {
	switch {
	case strings.HasPrefix(bucket, "items-"):
		r.Items++
		doc, err := readRecord(key, value)
		if err == nil && !json.Valid(doc.body) {
			err = errors.New("the document is not valid JSON")
		}
		return err
	case strings.HasPrefix(bucket, "versions-"):
		_, err := readVersion(key, value)
		return err
	case strings.HasPrefix(bucket, "state-"):
		return nil
	case bucket == databaseBucket:
		r.Databases++
	case bucket == containerBucket:
		r.Containers++
	}
	if !json.Valid(value) {
		return errors.New("it is not valid JSON")
	}
	return nil
}
