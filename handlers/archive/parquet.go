package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/parquet-go/parquet-go"

	"halley/trigger/cosmos"
)

// readBatch is the number of rows that are read at a time.
const readBatch = 256

// schemaOf returns the schema of a blob. Names are in alphabetical order, as a Group
// sorts them.
func schemaOf(columns Columns) *parquet.Schema {
	fields := parquet.Group{
		"change":        plainText(),
		"id":            plainText(),
		"partition_key": plainText(),
		"operation":     parquet.Encoded(parquet.String(), &parquet.RLEDictionary),
		"lsn":           parquet.Int(64),
		"ts":            parquet.Timestamp(parquet.Millisecond),
		"document":      parquet.Optional(plainText()),
	}
	for _, c := range columns {
		fields[c.Name] = parquet.Optional(c.node())
	}
	return parquet.NewSchema("change", fields)
}

func (c Column) node() parquet.Node {
	switch c.Type {
	case IntegerColumn:
		return parquet.Int(64)
	case NumberColumn:
		return parquet.Leaf(parquet.DoubleType)
	case BooleanColumn:
		return parquet.Leaf(parquet.BooleanType)
	case TimeColumn:
		return parquet.Timestamp(parquet.Millisecond)
	}
	return plainText()
}

// plainText returns a text column with PLAIN pages. The library's own choice for text is
// DELTA_LENGTH_BYTE_ARRAY: Spark's vectorized reader returns wrong values from it, without
// an error, if the column has nulls.
func plainText() parquet.Node { return parquet.Encoded(parquet.String(), &parquet.Plain) }

// encodeParquet compresses with Zstandard, which Spark, DuckDB and Arrow read.
func encodeParquet(records []Record, columns Columns) ([]byte, error) {
	schema := schemaOf(columns)
	var out bytes.Buffer
	w := parquet.NewWriter(&out, schema, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("halley", "archive", ""))
	rows := make([]parquet.Row, len(records))
	for i, r := range records {
		rows[i] = rowOf(schema, r, columns)
	}
	if _, err := w.WriteRows(rows); err != nil {
		return nil, fmt.Errorf("encode %d changes as Parquet: %w", len(records), err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encode %d changes as Parquet: %w", len(records), err)
	}
	return out.Bytes(), nil
}

// rowOf returns the values of a record in the order of the schema.
func rowOf(schema *parquet.Schema, r Record, columns Columns) parquet.Row {
	values := map[string]any{
		"change": r.Change, "id": r.ID, "partition_key": r.PartitionKey, "operation": string(r.Operation),
		"lsn": r.LSN, "ts": r.Time, "document": nil,
	}
	if r.Document != nil {
		values["document"] = string(r.Document)
	}
	for _, c := range columns {
		values[c.Name] = c.valueOf(r.Document)
	}
	row := make(parquet.Row, 0, len(values))
	for i, path := range schema.Columns() {
		leaf, _ := schema.Lookup(path...)
		value, level := parquetValue(values[path[0]]), 0
		if leaf.Node.Optional() && !value.IsNull() {
			level = 1
		}
		row = append(row, value.Level(0, level, i))
	}
	return row
}

func parquetValue(v any) parquet.Value {
	switch v := v.(type) {
	case string:
		return parquet.ByteArrayValue([]byte(v))
	case int64:
		return parquet.Int64Value(v)
	case float64:
		return parquet.DoubleValue(v)
	case bool:
		return parquet.BooleanValue(v)
	case time.Time:
		return parquet.Int64Value(v.UnixMilli())
	}
	return parquet.NullValue()
}

// decodeParquet reads the columns of records; further columns are left out.
func decodeParquet(blob []byte) (records []Record, err error) {
	file, err := parquet.OpenFile(bytes.NewReader(blob), int64(len(blob)))
	if err != nil {
		return nil, err
	}
	places := map[string]int{}
	for i, path := range file.Schema().Columns() {
		places[path[0]] = i
	}
	for _, path := range schemaOf(nil).Columns() {
		if _, ok := places[path[0]]; !ok {
			return nil, fmt.Errorf("it has no column %q", path[0])
		}
	}
	reader := parquet.NewReader(file)
	rows := make([]parquet.Row, readBatch)
	for {
		n, err := reader.ReadRows(rows)
		for _, row := range rows[:n] {
			records = append(records, recordOf(row, places))
		}
		if errors.Is(err, io.EOF) {
			return records, reader.Close()
		}
		if err != nil {
			return nil, errors.Join(err, reader.Close())
		}
	}
}

// recordOf reads a row. Each column has one value in it.
func recordOf(row parquet.Row, places map[string]int) Record {
	text := func(name string) string { return string(row[places[name]].ByteArray()) }
	r := Record{
		Change: text("change"), ID: text("id"), PartitionKey: text("partition_key"), Operation: cosmos.Operation(text("operation")),
		LSN: row[places["lsn"]].Int64(), Time: time.UnixMilli(row[places["ts"]].Int64()).UTC(),
	}
	if document := row[places["document"]]; !document.IsNull() {
		r.Document = json.RawMessage(text("document"))
	}
	return r
}
