package functionshost

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// FireQueue invokes a function with a queue trigger for one message. If the
// message is a JSON object, its properties, except arrays, are merged into the
// metadata and may replace the queue's own.
func (h *Host) FireQueue(function string, message string, dequeueCount int) *Invocation {
	b, err := h.triggerOf(function, "queueTrigger")
	if err != nil {
		return failed(function, err)
	}
	now := time.Now().UTC()
	metadata := map[string]any{
		"DequeueCount":    dequeueCount,
		"Id":              uuid.NewString(),
		"PopReceipt":      base64.StdEncoding.EncodeToString([]byte("receipt")),
		"InsertionTime":   now,
		"ExpirationTime":  now.Add(7 * 24 * time.Hour),
		"NextVisibleTime": now.Add(10 * time.Minute),
	}
	for name, value := range properties(message) {
		metadata[name] = value
	}
	return h.Invoke(function, Payload{Data: map[string]any{b.Name: message}, Metadata: metadata})
}

// triggerOf returns the function's trigger binding, or an error if it is of
// another type.
func (h *Host) triggerOf(function, kind string) (binding, error) {
	f, found := h.app.functions[function]
	if !found {
		return binding{}, fmt.Errorf("function %q is not in the app", function)
	}
	b, err := f.trigger()
	if err == nil && b.Type != kind {
		err = fmt.Errorf("function %s: its trigger is a %s, not a %s", function, b.Type, kind)
	}
	return b, err
}

// properties returns the properties that a JSON message adds to the metadata:
// objects unchanged, scalars as text (webjobs-sdk, BindingDataProvider).
func properties(message string) map[string]any {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(message), &object) != nil {
		return nil
	}
	merged := make(map[string]any)
	for name, raw := range object {
		var text string
		switch {
		case raw[0] == '[', string(raw) == "null":
		case raw[0] == '{':
			merged[name] = raw
		case json.Unmarshal(raw, &text) == nil:
			merged[name] = text
		default:
			merged[name] = string(raw)
		}
	}
	return merged
}

// QueueMessages returns the messages that a queue output binding sends for an
// output value: one for each element if the value is an array, also if the array
// is inside a string, else one. If a string is valid base64, it is decoded first.
func QueueMessages(value json.RawMessage) ([]string, error) {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return elements(value)
	}
	if inner := json.RawMessage(text); json.Valid(inner) && len(inner) > 0 && inner[0] == '[' {
		return elements(inner)
	}
	return []string{enqueue(text)}, nil
}

func elements(value json.RawMessage) ([]string, error) {
	if len(value) == 0 {
		return nil, fmt.Errorf("queue output is empty")
	}
	if value[0] != '[' {
		return []string{string(value)}, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(value, &list); err != nil {
		return nil, fmt.Errorf("queue output %s: %w", strconv.Quote(string(value)), err)
	}
	messages := make([]string, len(list))
	for i, element := range list {
		var text string
		if json.Unmarshal(element, &text) == nil {
			messages[i] = enqueue(text)
		} else {
			messages[i] = string(element)
		}
	}
	return messages, nil
}

func enqueue(text string) string {
	if decoded, err := base64.StdEncoding.DecodeString(text); err == nil && text != "" {
		return string(decoded)
	}
	return text
}
