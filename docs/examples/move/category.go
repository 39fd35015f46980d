package main

import "encoding/json"

// byCategory is the transform of the migration: orders without a category get one, so
// that each has a partition key in the target. All other properties stay as they are.
func byCategory(document json.RawMessage) (json.RawMessage, error) {
	var order map[string]json.RawMessage
	if err := json.Unmarshal(document, &order); err != nil {
		return nil, err
	}
	if _, ok := order["category"]; !ok {
		order["category"] = json.RawMessage(`"other"`)
	}
	return json.Marshal(order)
}
