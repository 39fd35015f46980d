package emulator

import (
	"encoding/json"
	"fmt"
	"time"

	"halley/trigger/emulator/epk"
	"halley/trigger/emulator/sql"
)

// containerDefinition is a container's definition by a client, checked.
type containerDefinition struct {
	name       string
	key        epk.Definition
	uniqueKeys []uniqueKey
	ttl        int64
	retention  time.Duration
	previous   previousImages
	query      sql.Container
	raw        json.RawMessage
}

// Limits of a container's definition. Those of paths and composite indexes are the
// service's, https://learn.microsoft.com/azure/cosmos-db/concepts-limits.
const (
	maxDefinition      = 512 << 10 // bytes
	maxIndexPaths      = 1500      // included, and as many excluded
	maxIndexPath       = 1024      // bytes
	maxCompositePaths  = 8
	maxSpecificIndexes = 100 // composite, and as many spatial and vector indexes
)

const defaultIndexing = `{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}]}`

// parseContainer checks a definition. It fills in the kind and the version if they
// are missing, because clients rely on them when they read the definition back.
func parseContainer(body []byte) (containerDefinition, error) {
	var d containerDefinition
	if len(body) > maxDefinition {
		return d, badRequest("The container definition has %d bytes, at most %d are allowed.", len(body), maxDefinition)
	}
	err := checkNesting(body)
	if err != nil {
		return d, err
	}
	if d.name, err = resourceName(body); err != nil {
		return d, err
	}
	properties := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &properties); err != nil {
		return d, badRequest("The container definition is not a JSON object: %v.", err)
	}
	if err := checkProperties(properties); err != nil {
		return d, err
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
	if d.previous, err = parsePreviousImages(properties["previousImageRetentionPolicy"]); err != nil {
		return d, err
	}
	if d.uniqueKeys, err = parseUniqueKeys(properties["uniqueKeyPolicy"]); err != nil {
		return d, err
	}
	if err := d.parsePolicies(properties); err != nil {
		return d, err
	}
	return d, d.normalize(properties)
}

func parseDefaultTTL(raw json.RawMessage) (int64, error) {
	if absent(raw) {
		return 0, nil
	}
	ttl, err := parseTTL(raw)
	if err != nil {
		return 0, badRequest("defaultTtl must be a positive number of seconds or -1, not %s.", raw)
	}
	return ttl, nil
}

// checkIndexing bounds the indexing policy, which is kept but makes no index.
func checkIndexing(raw json.RawMessage) error {
	type path struct {
		Path string `json:"path"`
	}
	var policy struct {
		Included  []path   `json:"includedPaths"`
		Excluded  []path   `json:"excludedPaths"`
		Composite [][]path `json:"compositeIndexes"`
		Spatial   []path   `json:"spatialIndexes"`
		Vector    []path   `json:"vectorIndexes"`
	}
	if err := json.Unmarshal(raw, &policy); err != nil {
		return badRequest("The indexingPolicy cannot be read: %v.", err)
	}
	type pathList struct {
		name  string
		paths []path
		most  int
	}
	lists := []pathList{
		{"includedPaths", policy.Included, maxIndexPaths},
		{"excludedPaths", policy.Excluded, maxIndexPaths},
		{"spatialIndexes", policy.Spatial, maxSpecificIndexes},
		{"vectorIndexes", policy.Vector, maxSpecificIndexes},
	}
	if n := len(policy.Composite); n > maxSpecificIndexes {
		return badRequest("The indexingPolicy has %d compositeIndexes, at most %d are allowed.", n, maxSpecificIndexes)
	}
	for _, index := range policy.Composite {
		lists = append(lists, pathList{"an index of compositeIndexes", index, maxCompositePaths})
	}
	for _, list := range lists {
		if len(list.paths) > list.most {
			return badRequest("The indexingPolicy has %d paths in %s, at most %d are allowed.", len(list.paths), list.name, list.most)
		}
		for _, p := range list.paths {
			if len(p.Path) > maxIndexPath {
				return badRequest("A path in %s of the indexingPolicy has %d bytes, at most %d are allowed.", list.name, len(p.Path), maxIndexPath)
			}
		}
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
	if properties["indexingPolicy"], err = normalIndexing(properties["indexingPolicy"]); err != nil {
		return err
	}
	for name := range properties {
		if f := find(containerFeatures, name); f == nil || f.name != name {
			delete(properties, name)
		}
	}
	d.raw, err = json.Marshal(properties)
	return err
}

// normalIndexing is an indexing policy as it is read: a policy that names no excluded paths
// excludes the etag (recorded answers of a hosted account, October 2026).
func normalIndexing(raw json.RawMessage) (json.RawMessage, error) {
	if absent(raw) {
		return json.RawMessage(defaultIndexing), nil
	}
	var policy map[string]json.RawMessage
	if err := json.Unmarshal(raw, &policy); err != nil {
		return nil, badRequest("The indexingPolicy cannot be read: %v.", err)
	}
	if policy["excludedPaths"] != nil {
		return raw, nil
	}
	policy["excludedPaths"] = json.RawMessage(`[{"path":"/\"_etag\"/?"}]`)
	return json.Marshal(policy)
}

// multiHashVersion is the newest API version that does not know hierarchical partition keys.
const multiHashVersion = "2018-12-31"

// parseContainer checks the definition that the request has, for its API version.
func (c *call) parseContainer() (containerDefinition, error) {
	d, err := parseContainer(c.body)
	if version := c.header.Get("X-Ms-Version"); err == nil && d.key.Kind == epk.MultiHash && version != "" && version <= multiHashVersion {
		err = badRequest("The 'kind' value 'MultiHash' specified in the partition key definition is invalid. Please choose 'Hash' partition type.")
	}
	return d, err
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

func (a *catalog) addNamed(databaseID string, definition containerDefinition, ranges int) (ticket uint64, err error) {
	if _, err := checkName(databaseID); err != nil {
		return 0, err
	}
	if err := a.store.writable(); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	d, ok := a.databases[databaseID]
	if !ok {
		d = a.addDatabase(databaseID, nil)
	}
	if _, ok := d.containers[definition.name]; ok {
		return 0, fmt.Errorf("database %q has it already", databaseID)
	}
	a.addContainer(d, definition, nil, ranges)
	return a.ticket, nil
}
