package emulator

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// database is guarded by its account's mu.
type database struct {
	databaseHead
	containers map[string]*container
}

// databaseHead is a database without its containers, as they know it. Its name and number never
// change, nor whether it has a throughput. The store keeps its exported fields.
type databaseHead struct {
	Name       string        `json:"name"`
	Number     uint32        `json:"number"`
	ETag       string        `json:"etag"`
	Modified   int64         `json:"modified"`
	Throughput *offer        `json:"throughput,omitempty"`
	LSN        int64         `json:"lsn,omitempty"` // of shared, when the database was saved
	shared     dataPartition // of the containers that share its throughput
}

func (d *databaseHead) rid() string { return databaseRID(d.Number) }

func (d *databaseHead) body() []byte {
	body, _ := json.Marshal(map[string]any{ // names always marshal
		"id": d.Name, "_rid": d.rid(), "_self": "dbs/" + d.rid() + "/", "_etag": d.ETag,
		"_colls": "colls/", "_users": "users/", "_ts": d.Modified,
	})
	return body
}

// name adds the headers that tell of which database a container is. Java makes
// the container's link of them (RxDocumentServiceResponse in azure-sdk-for-java).
func (d *databaseHead) name(r *response) {
	r.set("x-ms-alt-content-path", "dbs/"+d.Name)
	r.set("x-ms-content-path", d.rid())
}

// dispatch finds the operation that method and path ask for.
func (c *call) dispatch() (*response, error) {
	if err := c.checkHeaders(); err != nil {
		return nil, err
	}
	if c.writes() {
		if err := c.catalog.store.writable(); err != nil {
			return nil, err
		}
	}
	switch c.target.kind {
	case kindItem:
		return c.dispatchItem()
	case kindKey:
		return c.dispatchKey()
	case kindConflict:
		return c.dispatchConflicts()
	case kindAccount:
		if c.method == http.MethodGet {
			return c.readAccount()
		}
		return nil, c.methodNotAllowed()
	}
	c.metadata = true
	if err := c.checkRegion(); err != nil {
		return nil, err
	}
	return c.dispatchMetadata()
}

// dispatchMetadata finds the operation on a resource of the master partition.
func (c *call) dispatchMetadata() (*response, error) {
	switch c.target.kind {
	case kindDatabase:
		return c.dispatchDatabase()
	case kindContainer:
		return c.dispatchContainer()
	case kindRange:
		if c.method == http.MethodGet && c.target.id == "" {
			return c.readRanges()
		}
	case kindOffer:
		return c.dispatchOffer()
	case kindUser, kindPermission:
		return c.dispatchUsers()
	}
	return nil, c.methodNotAllowed()
}

// methodNotAllowed names the handler that the service's gateway does not have.
func (c *call) methodNotAllowed() *failure {
	method := c.method[:1] + strings.ToLower(c.method[1:])
	return fail(http.StatusMethodNotAllowed, 0, "RequestHandler.%s", method).byGateway()
}

func (c *call) dispatchDatabase() (*response, error) {
	list := c.target.id == ""
	switch {
	case list && c.method == http.MethodGet:
		return c.listDatabases()
	case list && c.method == http.MethodPost && c.isQuery():
		return c.queryDatabases()
	case list && c.method == http.MethodPost:
		return c.createDatabase()
	case !list && c.method == http.MethodGet:
		return c.readDatabase()
	case !list && c.method == http.MethodDelete:
		return c.deleteDatabase()
	}
	return nil, c.methodNotAllowed()
}

// writes reports whether the request changes the account.
func (c *call) writes() bool {
	if c.method != http.MethodPost {
		return c.method != http.MethodGet
	}
	return !c.isQuery() && c.header.Get("X-Ms-Cosmos-Is-Query-Plan-Request") == ""
}

// isQuery reports whether a POST is a query. It is one if any of three headers
// says so, one of them in either of two ways: clients differ.
func (c *call) isQuery() bool {
	return strings.EqualFold(c.header.Get("X-Ms-Documentdb-Query"), "true") ||
		strings.EqualFold(c.header.Get("X-Ms-Documentdb-Isquery"), "true") ||
		strings.HasPrefix(c.header.Get("Content-Type"), "application/query+json") ||
		strings.HasPrefix(c.header.Get("Content-Type"), sqlType)
}

// accountID is the name of every account. If it were "localhost", @azure/cosmos would
// ignore the account's locations.
const accountID = "halley"

// readAccount answers with the locations of the account.
func (c *call) readAccount() (*response, error) {
	readable, writable := c.locations()
	host, err := url.Parse(c.endpoint)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{
		"id": accountID, "_rid": host.Hostname(), "_self": "", "media": "//media/", "addresses": "//addresses/", "_dbs": "//dbs/",
		"writableLocations": writable, "readableLocations": readable, "enableMultipleWriteLocations": c.catalog.options.MultipleWrites,
		"continuousBackupEnabled": false, "enableNRegionSynchronousCommit": false,
		"enablePerPartitionFailoverBehavior": c.catalog.options.PartitionFailover, "disableCrossRegionalHedging": false,
		"userConsistencyPolicy":    map[string]string{"defaultConsistencyLevel": accountConsistency},
		"userReplicationPolicy":    map[string]any{"asyncReplication": false, "minReplicaSetSize": 3, "maxReplicasetSize": 4},
		"systemReplicationPolicy":  map[string]any{"minReplicaSetSize": 3, "maxReplicasetSize": 4, "asyncReplication": false},
		"readPolicy":               map[string]int{"primaryReadCoefficient": 1, "secondaryReadCoefficient": 1},
		"queryEngineConfiguration": queryEngine,
	})
	return reply(http.StatusOK, body), err
}

// queryEngine is JSON inside JSON; clients that plan queries themselves read it.
const queryEngine = `{"maxSqlQueryInputLength":524288,"maxJoinsPerSqlQuery":10,"maxLogicalAndPerSqlQuery":2000,"maxLogicalOrPerSqlQuery":2000,"maxUdfRefPerSqlQuery":10,"maxInExpressionItemsCount":16000,"queryMaxGroupByTableCellCount":500000000,"queryMaxInMemorySortDocumentCount":500,"maxQueryRequestTimeoutFraction":0.9,"sqlAllowNonFiniteNumbers":false,"sqlAllowAggregateFunctions":true,"sqlAllowSubQuery":true,"sqlAllowScalarSubQuery":true,"allowNewKeywords":true,"sqlAllowLike":true,"sqlAllowGroupByClause":true,"maxSpatialQueryCells":12,"spatialMaxGeometryPointCount":256,"sqlDisableOptimizationFlags":0,"sqlDisableQueryILOptimization":false,"sqlDisableFilterPlanOptimization":false,"clientDisableOptimisticDirectExecution":false,"sqlEnableParameterExpansionCheck":true}`

func (c *call) listDatabases() (*response, error) {
	return list("", "Databases", c.databaseBodies()), nil
}

func (c *call) databaseBodies() [][]byte {
	a := c.catalog
	a.mu.RLock()
	defer a.mu.RUnlock()
	c.ticket = a.ticket
	bodies := [][]byte{}
	for _, name := range slices.Sorted(maps.Keys(a.databases)) {
		bodies = append(bodies, a.databases[name].body())
	}
	return bodies
}

func (c *call) createDatabase() (*response, error) {
	name, err := resourceName(c.body)
	if err != nil {
		return nil, err
	}
	throughput, err := c.throughput()
	if err != nil {
		return nil, err
	}
	a := c.catalog
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.databases[name]; ok {
		c.ticket = a.ticket
		return nil, conflict("database")
	}
	d := a.addDatabase(name, throughput)
	c.ticket = a.ticket
	r := reply(http.StatusCreated, d.body()).etag(d.ETag).charge(1)
	if throughput != nil { // its data partition answers
		lsn := d.shared.newest()
		r.stamp(replica{session: "0:-1#" + strconv.FormatInt(lsn, 10), lsn: lsn, committed: lsn}, true)
	}
	return r, nil
}

// maxName is the service's limit on the name of a database or container, in
// characters; here in bytes, https://learn.microsoft.com/azure/cosmos-db/concepts-limits.
const maxName = 255

// resourceName takes the id from the definition of a database or container. It
// fails if the id has a character that paths cannot carry, as on the service.
func resourceName(body []byte) (string, error) {
	var definition struct {
		ID *string `json:"id"`
	}
	if err := json.Unmarshal(body, &definition); err != nil {
		return "", badRequest("The definition is not a JSON object: %v.", err)
	}
	if definition.ID == nil {
		return "", missingID()
	}
	return checkName(*definition.ID)
}

func checkName(name string) (string, error) {
	switch {
	case name == "" || len(name) > maxName:
		return "", badRequest("The input name '%s' is invalid. Ensure to provide a unique non-empty string less than '%d' characters.", shortened(name, maxName), maxName)
	case strings.ContainsAny(name, `/\?#`) || strings.HasSuffix(name, " ") || strings.ContainsFunc(name, unicode.IsControl):
		return "", badRequest("The input name presented contains invalid character.")
	}
	return name, nil
}

func (c *call) readDatabase() (*response, error) {
	a := c.catalog
	a.mu.RLock()
	defer a.mu.RUnlock()
	c.ticket = a.ticket
	d, ok := a.findDatabase(c.target.id)
	if !ok {
		return nil, notFound("database")
	}
	return reply(http.StatusOK, d.body()).etag(d.ETag).charge(masterUnits), nil
}

func (c *call) deleteDatabase() (*response, error) {
	a := c.catalog
	a.mu.Lock()
	defer a.mu.Unlock()
	d, ok := a.findDatabase(c.target.id)
	if !ok {
		c.ticket = a.ticket
		return nil, notFound("database")
	}
	if err := c.checkMatch(d.ETag); err != nil {
		return nil, err
	}
	for _, container := range d.containers {
		container.drop()
	}
	delete(a.databases, d.Name)
	a.master.Add(1)
	a.ticket = a.removeDatabase(d)
	c.ticket = a.ticket
	return reply(http.StatusNoContent, nil).charge(5), nil
}
