package emulator

import (
	"encoding/json"
	"slices"
	"strings"
)

// support says how the account answers a part of the service's API.
type support string

const (
	done       support = "done"             // a test of another vendor's client or a recorded exchange covers it
	documented support = "by documentation" // done as the service's documentation says, without such evidence
	kept       support = "kept"             // accepted and read back; it would not change an answer
	refused    support = "refused"          // with a text that names the feature
	ignored    support = "ignored"          // as on the service
)

// feature is a part of the service's API. The table of docs/emulator.md and its tests
// are made of these; the account refuses what they say is refused.
type feature struct {
	name    string
	support support
	note    string // the reason or the advice, in a few words
}

// containerFeatures are the properties of a container's definition.
var containerFeatures = []feature{
	{"id", done, ""},
	{"partitionKey", done, "Hash in both versions, and MultiHash"},
	{"defaultTtl", done, ""},
	{"uniqueKeyPolicy", done, ""},
	{"changeFeedPolicy", done, ""},
	{"previousImageRetentionPolicy", documented, "the mode of allVersionsAndDeletes; images are whole"},
	{"computedProperties", done, ""},
	{"geospatialConfig", documented, "distances on the globe are those of the WGS 84 ellipsoid"},
	{"vectorEmbeddingPolicy", done, "VectorDistance compares with every item"},
	{"indexingPolicy", done, "queries need no index and find every item, also if automatic is false; ORDER BY keeps items without the property if its path is included by name"},
	{"conflictResolutionPolicy", kept, "the last writer wins"},
	{"fullTextPolicy", kept, "queries that search are refused"},
	{"analyticalStorageTtl", refused, "there is no analytical store; leave it out, or send 0"},
	{"clientEncryptionPolicy", refused, "there are no client encryption keys"},
	{"materializedViewDefinition", refused, "there are no materialized views"},
	{"dataMaskingPolicy", refused, "there is no data masking"},
	{"any other property", ignored, "it is not read back"},
}

// headerFeatures are the headers of requests that ask for more than their path.
var headerFeatures = []feature{
	{"x-ms-documentdb-pre-trigger-include", refused, "there are no triggers"},
	{"x-ms-documentdb-post-trigger-include", refused, "there are no triggers"},
	{"x-ms-offer-type", refused, "send x-ms-offer-throughput"},
	{"x-ms-cosmos-is-client-encrypted", refused, "there are no client encryption keys"},
	{"x-ms-consistency-level", done, "Session and weaker levels; every read is strong"},
	{"x-ms-indexing-directive", kept, "queries find every item"},
	{"x-ms-cosmos-priority-level", kept, "no request waits for another"},
	{"x-ms-cosmos-throughput-bucket", kept, "the budget is not divided"},
}

// resourceFeatures are the resource types of paths.
var resourceFeatures = []feature{
	{kindDatabase, done, "create, read, list, query, delete"},
	{kindContainer, done, "create, read, list, query, replace, delete"},
	{kindItem, done, "create, upsert, read, replace, patch, delete, list, query, batch, bulk, change feed"},
	{kindRange, done, "list"},
	{kindOffer, done, "read, list, query, replace, migrate"},
	{"operations/partitionkeydelete", done, "delete all items of a partition key"},
	{"sprocs", refused, "stored procedures"},
	{"triggers", refused, "triggers"},
	{"udfs", refused, "user-defined functions"},
	{kindUser, done, "list and query: there are none, sign with the account's key"},
	{kindConflict, done, "list and query: the last writer wins"},
	{"attachments", refused, "attachments"},
	{"clientencryptionkeys", refused, "client encryption keys"},
}

// queryFeatures are the parts of the query language. Its functions are in package sql.
var queryFeatures = []feature{
	{"SELECT list, *, VALUE", done, ""},
	{"DISTINCT", done, ""},
	{"TOP, OFFSET LIMIT", done, ""},
	{"FROM with paths and IN", documented, ""},
	{"JOIN", done, "at most 10"},
	{"scalar subqueries", done, ""},
	{"EXISTS, ARRAY, and subqueries in FROM", documented, ""},
	{"WHERE", done, ""},
	{"GROUP BY", done, ""},
	{"ORDER BY", done, "several expressions need no composite index"},
	{"parameters", done, ""},
	{"ORDER BY VectorDistance", done, ""},
	{"FROM subqueries over several ranges", documented, "DISTINCT in them only if they are counted; any with a partition key"},
	{"ST_DISTANCE and ST_WITHIN of lines, or of two regions", refused, "points, and points in regions"},
	{"ORDER BY RANK", refused, "there is no hybrid search"},
	{"ORDER BY with aggregates", documented, "it changes nothing"},
	{"ORDER BY with GROUP BY", refused, "order the groups in the client"},
	{"LET", refused, ""},
	{"user-defined functions", refused, ""},
	{"properties of the body besides query and parameters", refused, ""},
	{"plans for clients that did not announce an ability", refused, "as on the service"},
}

// find returns the feature of a name, and nil if there is none.
func find(features []feature, name string) *feature {
	i := slices.IndexFunc(features, func(f feature) bool { return strings.EqualFold(f.name, name) })
	if i < 0 {
		return nil
	}
	return &features[i]
}

// unsupported is the answer to a request for a feature that the account does not have.
func unsupported(feature, note string) *failure {
	if note != "" {
		note = ": " + note
	}
	return badRequest("%s is not supported by the Halley emulator%s. See docs/emulator.md.", feature, note).byGateway()
}

// checkProperties fails if a container's definition has a property that the account
// would not act on, but the service would.
func checkProperties(properties map[string]json.RawMessage) error {
	for name, value := range properties {
		f := find(containerFeatures, name)
		if f == nil || f.name != name || f.support != refused || absent(value) {
			continue
		}
		if name != "analyticalStorageTtl" || string(value) != "0" {
			return unsupported("The container property "+name, f.note)
		}
	}
	return nil
}

// refusedHeaders are the features of headers that are refused, by canonical name.
var refusedHeaders = func() map[string]feature {
	headers := map[string]feature{}
	for _, f := range headerFeatures {
		if f.support == refused {
			headers[canonical(f.name)] = f
		}
	}
	return headers
}()

// checkHeaders fails if a header asks for a feature that the account does not have.
func (c *call) checkHeaders() error {
	for name, f := range refusedHeaders {
		if len(c.header[name]) == 0 {
			continue
		}
		value := c.header.Get(name)
		if value == "" || f.name == "x-ms-cosmos-is-client-encrypted" && !strings.EqualFold(value, "true") {
			continue
		}
		return unsupported("The header "+f.name, f.note)
	}
	return c.checkConsistency()
}

// accountConsistency is the consistency that the account states.
const accountConsistency = "Session"

// weakerLevels are the levels of consistency that clients may ask for.
var weakerLevels = []string{accountConsistency, "ConsistentPrefix", "Eventual"}

// checkConsistency fails if a request asks for a stronger consistency than the account
// states, in the words of recorded answers of a hosted account, October 2026.
func (c *call) checkConsistency() error {
	level := c.header.Get("X-Ms-Consistency-Level")
	if level == "" || slices.ContainsFunc(weakerLevels, func(l string) bool { return strings.EqualFold(l, level) }) {
		return nil
	}
	return badRequest("ConsistencyLevel %s specified in the request is invalid when service is configured with consistency level %s. Ensure the request consistency level is not stronger than the service consistency level.", shortened(level, maxName), accountConsistency)
}

// checkFeatures fails if a client did not announce the abilities that a query plan
// needs: it would return parts of results as if they were results.
func (c *call) checkFeatures(needed []string) error {
	announced := map[string]bool{}
	for name := range strings.SplitSeq(c.header.Get("X-Ms-Cosmos-Supported-Query-Features"), ",") {
		announced[strings.TrimSpace(name)] = true
	}
	var missing []string
	for _, name := range needed {
		if !announced[name] {
			missing = append(missing, "Query contained "+name+", which the calling client does not support.")
		}
	}
	if missing == nil {
		return nil
	}
	return badRequest("Query contains 1 or more unsupported features. Upgrade your SDK to a version that does support the requested features:\n%s", strings.Join(missing, "\n"))
}
