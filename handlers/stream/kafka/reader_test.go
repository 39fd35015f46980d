package kafka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"halley/trigger"
	"halley/trigger/triggertest"
)

// Another client reads the messages, and another implementation of Kafka's partitioner
// selects the same partitions. HALLEY_TEST_KAFKAJS is the directory of kafkajs.
func TestAnotherClientReads(t *testing.T) {
	brokers, kafkajs := os.Getenv("HALLEY_TEST_KAFKA"), os.Getenv("HALLEY_TEST_KAFKAJS")
	if brokers == "" || kafkajs == "" {
		t.Skip("HALLEY_TEST_KAFKA or HALLEY_TEST_KAFKAJS is not set: no broker or no other client")
	}
	changes := createTopic(t, brokers, nil)
	const count = 60
	var batch []trigger.Change
	for i := range count {
		key := fmt.Sprint("Kundin ", i%20, " ü")
		batch = append(batch, triggertest.Upsert(order(fmt.Sprint(i), key), key))
	}
	if v := triggertest.Deliver(t, opened(t, changes.set), batch...); v.Err != nil {
		t.Fatal(v)
	}
	reader := exec.CommandContext(t.Context(), "node", "testdata/reader.mjs", kafkajs, brokers, changes.name, fmt.Sprint(count))
	var complaints bytes.Buffer
	reader.Stderr = &complaints
	output, err := reader.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	last := map[string]int{} // number of the last document of each key
	lines := bytes.Split(bytes.TrimSpace(output), []byte("\n"))
	for _, line := range lines {
		var r struct {
			Key, ID, Source, Op, Document string
			Partition, Expected           int
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		var number int
		if _, err := fmt.Sscan(r.Document, &number); err != nil {
			t.Fatal(err)
		}
		if before, ok := last[r.Key]; ok && before >= number {
			t.Errorf("document %d of %s comes after %d", number, r.Key, before)
		}
		last[r.Key] = number
		if r.Partition != r.Expected || r.ID != r.Source || r.Op != "r" {
			t.Errorf("record is %s", line)
		}
	}
	if len(lines) != count || len(last) != 20 {
		t.Errorf("%d records of %d keys", len(lines), len(last))
	}
}
