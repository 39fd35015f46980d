package packaging

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// The files that spread ranges over instances through a queue: the timer's function.json
// gets a queue output, drainFile processes the messages, and host.json gets the extension
// bundle, without which the Functions host knows no queues, and the time after which a
// message that failed comes back.
const (
	timerFile = "function/function.json"
	drainFile = "drain/function.json"

	queueConnection = "AzureWebJobsStorage"
	extensionBundle = `{"id": "Microsoft.Azure.Functions.ExtensionBundle", "version": "[4.*, 5.0.0)"}`

	// By default a message that failed comes back at once: while a process starts again, it
	// would fail five times and be poison within milliseconds
	// (https://learn.microsoft.com/azure/azure-functions/functions-bindings-storage-queue#host-json).
	visibilityTimeout = `"00:00:10"`
)

// queueBinding is a queue output or a queue trigger.
type queueBinding struct {
	Type       string `json:"type"`
	Direction  string `json:"direction"`
	Name       string `json:"name"`
	QueueName  string `json:"queueName"`
	Connection string `json:"connection"`
}

// queueName names the queue after the executable: apps that share a storage account must
// not share a queue. Queue names have 3 to 63 lower-case letters, digits and single
// hyphens (https://learn.microsoft.com/rest/api/storageservices/naming-queues-and-metadata).
func queueName(executable string) string {
	words := strings.FieldsFunc(strings.ToLower(path.Base(executable)), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	const suffix = "ranges"
	name := strings.Join(words, "-")
	name = strings.TrimRight(name[:min(len(name), 63-len(suffix)-1)], "-")
	return strings.TrimLeft(name+"-"+suffix, "-")
}

// addFanout writes these files into a directory, and replaces those of the app by them.
func addFanout(files map[string]string, dir, executable string) error {
	if files[drainFile] != "" {
		return fmt.Errorf("%s exists already: leave out --fanout, or remove it", drainFile)
	}
	if files[timerFile] == "" {
		return fmt.Errorf("%s is missing: its timer finds the ranges that have work", timerFile)
	}
	queue := queueName(executable)
	for _, change := range []struct {
		file string
		do   func(document map[string]json.RawMessage) error
	}{
		{timerFile, func(document map[string]json.RawMessage) error {
			return addBinding(document, queueBinding{"queue", "out", "ranges", queue, queueConnection})
		}},
		{drainFile, func(document map[string]json.RawMessage) error {
			return addBinding(document, queueBinding{"queueTrigger", "in", "range", queue, queueConnection})
		}},
		{"host.json", func(document map[string]json.RawMessage) error {
			return errors.Join(addDefault(document, extensionBundle, "extensionBundle"), addDefault(document, visibilityTimeout, "extensions", "queues", "visibilityTimeout"))
		}},
	} {
		target := filepath.Join(dir, strings.ReplaceAll(change.file, "/", "-"))
		if err := rewrite(files[change.file], target, change.do); err != nil {
			return fmt.Errorf("%s: %w", change.file, err)
		}
		files[change.file] = target
	}
	return nil
}

// rewrite writes a changed JSON object into another file. If source is "", it begins with
// an empty object.
func rewrite(source, target string, change func(document map[string]json.RawMessage) error) error {
	document := map[string]json.RawMessage{}
	if source != "" {
		data, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &document); err != nil {
			return fmt.Errorf("not a JSON object: %w", err)
		}
	}
	if err := change(document); err != nil {
		return err
	}
	data, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(target, append(data, '\n'), fs.FileMode(0o600))
}

// addDefault sets a value in an object, or in the objects of a path inside it, unless it has
// one. As in the Functions host, the case of a name does not count.
func addDefault(document map[string]json.RawMessage, value string, path ...string) error {
	name := path[0]
	for other := range document {
		if strings.EqualFold(other, name) {
			name = other
		}
	}
	if len(path) == 1 {
		if document[name] == nil {
			document[name] = json.RawMessage(value)
		}
		return nil
	}
	var inner map[string]json.RawMessage
	if document[name] != nil {
		if err := json.Unmarshal(document[name], &inner); err != nil {
			return fmt.Errorf("%s: not a JSON object: %w", name, err)
		}
	}
	if inner == nil {
		inner = map[string]json.RawMessage{}
	}
	err := addDefault(inner, value, path[1:]...)
	if err == nil {
		document[name], err = json.Marshal(inner)
	}
	return err
}

// addBinding adds a binding to a function. A function that has a binding of that type
// is the user's own.
func addBinding(function map[string]json.RawMessage, b queueBinding) error {
	var bindings []json.RawMessage
	if old := function["bindings"]; old != nil {
		if err := json.Unmarshal(old, &bindings); err != nil {
			return fmt.Errorf("bindings: %w", err)
		}
	}
	for _, raw := range bindings {
		var other queueBinding
		if json.Unmarshal(raw, &other) == nil && strings.EqualFold(other.Type, b.Type) {
			return errors.New("it has a " + b.Type + " already: leave out --fanout, or remove it")
		}
	}
	added, err := json.Marshal(b)
	if err != nil {
		return err
	}
	function["bindings"], err = json.Marshal(append(bindings, added))
	return err
}
