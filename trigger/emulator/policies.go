package emulator

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"halley/trigger/emulator/epk"
	"halley/trigger/emulator/sql"
)

// parsePolicies checks the policies of a container that change the results of its
// queries, and those that the account keeps without an effect.
func (d *containerDefinition) parsePolicies(properties map[string]json.RawMessage) error {
	for _, parse := range []func(map[string]json.RawMessage) error{
		d.parseIndexing, d.parseComputed, d.parseVectors, d.parseGeospatial, checkFullText, checkConflictResolution,
	} {
		if err := parse(properties); err != nil {
			return err
		}
	}
	return nil
}

// absent reports whether a property is missing or null.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

// parseIndexing takes the paths that the policy includes by name, such as /a/b/?.
func (d *containerDefinition) parseIndexing(properties map[string]json.RawMessage) error {
	raw := properties["indexingPolicy"]
	if absent(raw) {
		return nil
	}
	if err := checkIndexing(raw); err != nil {
		return err
	}
	var policy struct {
		Mode      string                  `json:"indexingMode"`
		Automatic bool                    `json:"automatic"` // changes nothing: queries find every item
		Included  []struct{ Path string } `json:"includedPaths"`
	}
	if err := json.Unmarshal(raw, &policy); err != nil {
		return badRequest("The indexingPolicy cannot be read: %v.", err)
	}
	if err := checkIndexingMode(policy.Mode); err != nil {
		return err
	}
	for _, p := range policy.Included {
		path, ok := strings.CutSuffix(p.Path, "/?")
		if !ok {
			path, ok = strings.CutSuffix(p.Path, "/*")
		}
		if !ok || path == "" {
			continue
		}
		names, err := epk.SplitPath(path)
		if err != nil {
			return badRequest("A path in includedPaths of the indexingPolicy is not valid: %v.", err)
		}
		d.query.Indexed = append(d.query.Indexed, names)
	}
	return nil
}

func checkIndexingMode(name string) error {
	switch mode := strings.ToLower(name); {
	case mode == "lazy":
		return unsupported("The indexingMode lazy", "use consistent")
	case mode != "" && mode != "consistent" && mode != "none":
		return badRequest("The indexingMode must be consistent or none, not %q.", name)
	}
	return nil
}

// maxComputed is the service's limit on computed properties.
const maxComputed = 20

func (d *containerDefinition) parseComputed(properties map[string]json.RawMessage) error {
	raw := properties["computedProperties"]
	if absent(raw) {
		return nil
	}
	var list []struct{ Name, Query string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return badRequest("computedProperties cannot be read: %v.", err)
	}
	if len(list) > maxComputed {
		return badRequest("The container has %d computedProperties, at most %d are allowed.", len(list), maxComputed)
	}
	taken := map[string]bool{"": true, "id": true}
	for _, property := range list {
		if taken[property.Name] || systemProperties[property.Name] {
			return badRequest("The name %q of a computed property is empty, taken or reserved.", property.Name)
		}
		taken[property.Name] = true
		computed, err := sql.ParseComputed(property.Name, property.Query)
		if err != nil {
			return badRequest("The query of the computed property %q is not valid: %v.", property.Name, err)
		}
		d.query.Computed = append(d.query.Computed, computed)
	}
	return nil
}

// checkFullText checks the fullTextPolicy, which is kept: it names languages of paths,
// and the functions that would search them are refused.
func checkFullText(properties map[string]json.RawMessage) error {
	raw := properties["fullTextPolicy"]
	if absent(raw) {
		return nil
	}
	var policy struct {
		Paths []struct{ Path string } `json:"fullTextPaths"`
	}
	if err := json.Unmarshal(raw, &policy); err != nil {
		return badRequest("The fullTextPolicy cannot be read: %v.", err)
	}
	for _, p := range policy.Paths {
		if _, err := epk.SplitPath(p.Path); err != nil {
			return badRequest("The fullTextPolicy cannot be read: %v.", err)
		}
	}
	return nil
}

// defaultConflicts is the conflictResolutionPolicy of a container that has none.
const defaultConflicts = `{"mode":"LastWriterWins","conflictResolutionPath":"/_ts","conflictResolutionProcedure":""}`

// checkConflictResolution checks the conflictResolutionPolicy, which is kept: the
// last writer wins, so that the account has no conflicts.
func checkConflictResolution(properties map[string]json.RawMessage) error {
	raw := properties["conflictResolutionPolicy"]
	if absent(raw) {
		properties["conflictResolutionPolicy"] = json.RawMessage(defaultConflicts)
		return nil
	}
	var policy struct {
		Mode string `json:"mode"`
		Path string `json:"conflictResolutionPath"`
	}
	if err := json.Unmarshal(raw, &policy); err != nil {
		return badRequest("The conflictResolutionPolicy cannot be read: %v.", err)
	}
	if !slices.Contains([]string{"", "LastWriterWins", "Custom"}, policy.Mode) {
		return badRequest("The mode of the conflictResolutionPolicy must be LastWriterWins or Custom, not %q.", policy.Mode)
	}
	if policy.Path != "" {
		if _, err := epk.SplitPath(policy.Path); err != nil {
			return badRequest("The conflictResolutionPolicy cannot be read: %v.", err)
		}
	}
	return nil
}

// defaultGeospatial is the geospatialConfig of a container that has none.
const defaultGeospatial = `{"type":"Geography"}`

// parseGeospatial reads whether coordinates lie on the globe or in a plane.
func (d *containerDefinition) parseGeospatial(properties map[string]json.RawMessage) error {
	raw := properties["geospatialConfig"]
	if absent(raw) {
		properties["geospatialConfig"] = json.RawMessage(defaultGeospatial)
		return nil
	}
	var config struct{ Type string }
	if err := json.Unmarshal(raw, &config); err != nil || config.Type != "Geography" && config.Type != "Geometry" {
		return badRequest("The geospatialConfig must be {\"type\": \"Geography\"} or {\"type\": \"Geometry\"}, not %s.", shortened(string(raw), maxMessage/8))
	}
	d.query.Planar = config.Type == "Geometry"
	return nil
}

// maxDimensions is the service's limit on the length of a vector.
const maxDimensions = 4096

// parseVectors reads the vectorEmbeddingPolicy: the paths of vectors, and how their
// distance is measured. Each vector index needs such a path.
func (d *containerDefinition) parseVectors(properties map[string]json.RawMessage) error {
	var policy struct {
		Embeddings []struct {
			Path, DataType, DistanceFunction string
			Dimensions                       int
		} `json:"vectorEmbeddings"`
	}
	if raw := properties["vectorEmbeddingPolicy"]; !absent(raw) {
		if err := json.Unmarshal(raw, &policy); err != nil {
			return badRequest("The vectorEmbeddingPolicy cannot be read: %v.", err)
		}
	}
	paths := map[string]bool{}
	for _, e := range policy.Embeddings {
		names, err := epk.SplitPath(e.Path)
		switch {
		case err != nil:
			return badRequest("The vectorEmbeddingPolicy cannot be read: %v.", err)
		case !slices.Contains([]string{"float32", "float16", "int8", "uint8"}, strings.ToLower(e.DataType)):
			return badRequest("The dataType of the vector %q must be float32, float16, int8 or uint8, not %q.", e.Path, e.DataType)
		case e.Dimensions < 1 || e.Dimensions > maxDimensions:
			return badRequest("The vector %q has %d dimensions, it needs 1 to %d.", e.Path, e.Dimensions, maxDimensions)
		case !sql.KnowsDistance(e.DistanceFunction):
			return badRequest("The distanceFunction of the vector %q must be cosine, dotproduct or euclidean, not %q.", e.Path, e.DistanceFunction)
		}
		paths[e.Path] = true
		d.query.Vectors = append(d.query.Vectors, sql.Vector{Path: names, Distance: e.DistanceFunction})
	}
	return checkVectorIndexes(properties["indexingPolicy"], paths)
}

func checkVectorIndexes(raw json.RawMessage, vectors map[string]bool) error {
	if absent(raw) {
		return nil
	}
	var policy struct {
		Indexes []struct{ Path, Type string } `json:"vectorIndexes"`
	}
	if err := json.Unmarshal(raw, &policy); err != nil {
		return badRequest("The indexingPolicy cannot be read: %v.", err)
	}
	for _, index := range policy.Indexes {
		if !vectors[index.Path] {
			return badRequest("The vector index of %q needs an entry in the vectorEmbeddingPolicy.", index.Path)
		}
		if !slices.Contains([]string{"flat", "quantizedFlat", "diskANN"}, index.Type) {
			return badRequest("The type of the vector index of %q must be flat, quantizedFlat or diskANN, not %q.", index.Path, index.Type)
		}
	}
	return nil
}
