package emulator

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"halley/trigger/emulator/epk"
)

// containerDefinition is a container's definition by a client, checked.
type containerDefinition struct {
	name      string
	key       epk.Definition
	ttl       int64
	retention time.Duration
	raw       json.RawMessage
}

const defaultIndexing = `{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}]}`

// parseContainer checks a definition. It fills in the kind and the version if they
// are missing, because clients rely on them when they read the definition back.
func parseContainer(body []byte) (containerDefinition, error) {
	var d containerDefinition
	var err error
	if d.name, err = resourceName(body); err != nil {
		return d, err
	}
	properties := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &properties); err != nil {
		return d, badRequest("The container definition is not a JSON object: %v.", err)
	}
	if properties["partitionKey"] == nil {
		return d, badRequest("The container %q needs a partitionKey such as {\"paths\":[\"/id\"],\"kind\":\"Hash\",\"version\":2}.", d.name)
	}
	if d.key, err = epk.ParseDefinition(properties["partitionKey"]); err != nil {
		return d, badRequest("The container %q cannot be created: %v.", d.name, err)
	}
	if d.ttl, err = parseDefaultTTL(properties["defaultTtl"]); err != nil {
		return d, err
	}
	if d.retention, err = parseRetention(properties["changeFeedPolicy"]); err != nil {
		return d, err
	}
	if err := checkUniqueKeys(properties["uniqueKeyPolicy"]); err != nil {
		return d, err
	}
	return d, d.normalize(properties)
}

func parseDefaultTTL(raw json.RawMessage) (int64, error) {
	if raw == nil {
		return 0, nil
	}
	ttl, err := parseTTL(raw)
	if err != nil {
		return 0, badRequest("defaultTtl must be a positive number of seconds or -1, not %s.", raw)
	}
	return ttl, nil
}

func checkUniqueKeys(raw json.RawMessage) error {
	var policy struct {
		UniqueKeys []json.RawMessage `json:"uniqueKeys"`
	}
	if raw != nil && json.Unmarshal(raw, &policy) == nil && len(policy.UniqueKeys) > 0 {
		return badRequest("This account does not enforce unique keys: leave uniqueKeyPolicy out.")
	}
	return nil
}

// normalize writes the definition as it will be read.
func (d *containerDefinition) normalize(properties map[string]json.RawMessage) error {
	key, err := json.Marshal(d.key)
	if err != nil {
		return err
	}
	properties["partitionKey"] = key
	if properties["indexingPolicy"] == nil {
		properties["indexingPolicy"] = json.RawMessage(defaultIndexing)
	}
	for name := range properties {
		if strings.HasPrefix(name, "_") {
			delete(properties, name)
		}
	}
	d.raw, err = json.Marshal(properties)
	return err
}

// CreateContainer creates a container whose items are placed by the property at
// partitionKeyPath, such as "/id", over the given number of physical ranges. It
// creates the database if it does not exist, and fails if the container does.
func (a *Account) CreateContainer(databaseID, containerID, partitionKeyPath string, ranges int) error {
	if ranges < 1 || ranges > maxRanges {
		return fmt.Errorf("create container %q: it can have 1 to %d ranges, not %d", containerID, maxRanges, ranges)
	}
	body, err := json.Marshal(map[string]any{"id": containerID, "partitionKey": map[string]any{"paths": []string{partitionKeyPath}, "kind": "Hash", "version": 2}})
	if err != nil {
		return fmt.Errorf("create container %q: %w", containerID, err)
	}
	definition, err := parseContainer(body)
	if err != nil {
		return fmt.Errorf("create container %q: %w", containerID, err)
	}
	ticket, err := a.addNamed(databaseID, definition, ranges)
	if err != nil {
		return fmt.Errorf("create container %q: %w", containerID, err)
	}
	return a.store.wait(ticket)
}

func (a *Account) addNamed(databaseID string, definition containerDefinition, ranges int) (ticket uint64, err error) {
	if _, err := checkName(databaseID); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	d, ok := a.databases[databaseID]
	if !ok {
		d = a.addDatabase(databaseID, nil)
	}
	if _, ok := d.containers[definition.name]; ok {
		return 0, conflict("container", definition.name)
	}
	a.addContainer(d, definition, nil, ranges)
	return a.ticket, nil
}
