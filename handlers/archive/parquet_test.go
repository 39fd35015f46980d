package archive

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"halley/trigger/cosmos"
)

// Spark reads wrong values, without an error, from nullable columns with delta encodings.
func TestBlobsHaveEncodingsThatSparkReads(t *testing.T) {
	columns := Columns{
		{Name: "word", Path: []string{"word"}, Type: TextColumn}, {Name: "count", Path: []string{"count"}, Type: IntegerColumn},
		{Name: "price", Path: []string{"price"}, Type: NumberColumn}, {Name: "open", Path: []string{"open"}, Type: BooleanColumn},
		{Name: "day", Path: []string{"day"}, Type: TimeColumn},
	}
	document := json.RawMessage(`{"word":"a","count":1,"price":1.5,"open":true,"day":"2026-01-02T03:04:05Z"}`)
	blob, err := encodeParquet([]Record{
		{Change: "1", ID: "a", PartitionKey: `["a"]`, Operation: cosmos.OperationCreate, LSN: 1, Time: time.UnixMilli(1), Document: document},
		{Change: "2", ID: "a", PartitionKey: `["a"]`, Operation: cosmos.OperationDelete, LSN: 2, Time: time.UnixMilli(2)},
	}, columns)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(blob), int64(len(blob)))
	if err != nil {
		t.Fatal(err)
	}
	encodings := []format.Encoding{format.Plain, format.RLE, format.RLEDictionary}
	for _, chunk := range file.Metadata().RowGroups[0].Columns {
		for _, encoding := range chunk.MetaData.Encoding {
			if !slices.Contains(encodings, encoding) {
				t.Errorf("column %v has the encoding %v", chunk.MetaData.PathInSchema, encoding)
			}
		}
	}
}
