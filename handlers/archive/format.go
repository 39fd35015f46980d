package archive

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
)

// Format is the format of blobs.
type Format string

// The formats.
const (
	Parquet   Format = "parquet"
	JSONLines Format = "jsonl" // one JSON object in a line, compressed with gzip
)

// extension ends the names of blobs.
func (f Format) extension() string {
	if f == JSONLines {
		return ".jsonl.gz"
	}
	return ".parquet"
}

func (f Format) contentType() string {
	if f == JSONLines {
		return "application/gzip"
	}
	return "application/vnd.apache.parquet"
}

func (f Format) encode(records []Record, columns Columns) ([]byte, error) {
	if f == JSONLines {
		return encodeLines(records, columns)
	}
	return encodeParquet(records, columns)
}

// encodeLines has the columns in the line of their record.
func encodeLines(records []Record, columns Columns) ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	lines := json.NewEncoder(zipped)
	lines.SetEscapeHTML(false)
	for _, r := range records {
		var line any = r
		if len(columns) > 0 {
			typed := map[string]any{}
			for _, c := range columns {
				typed[c.Name] = c.valueOf(r.Document)
			}
			line = joined(r, typed)
		}
		if err := lines.Encode(line); err != nil {
			return nil, fmt.Errorf("encode change of document %q: %w", r.ID, err)
		}
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// joined is a record with further columns.
func joined(r Record, typed map[string]any) map[string]any {
	line := map[string]any{
		"change": r.Change, "id": r.ID, "partition_key": r.PartitionKey, "operation": r.Operation, "lsn": r.LSN, "ts": r.Time,
	}
	if r.Document != nil {
		line["document"] = r.Document
	}
	maps.Copy(line, typed)
	return line
}

// longestLine bounds a line while it is read: a document has 2 MB at most.
const longestLine = 64 << 20

func decodeLines(blob []byte) (records []Record, err error) {
	zipped, err := gzip.NewReader(bytes.NewReader(blob))
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(zipped)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var r Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(records)+1, err)
		}
		records = append(records, r)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, zipped) // checks the sum
	return records, errors.Join(err, zipped.Close())
}
