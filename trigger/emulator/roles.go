package emulator

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Data actions of the service,
// https://learn.microsoft.com/azure/cosmos-db/reference-data-plane-security
const (
	actionPrefix     = "Microsoft.DocumentDB/databaseAccounts/"
	containerActions = actionPrefix + "sqlDatabases/containers/"
	itemActions      = containerActions + "items/"
	actionMetadata   = actionPrefix + "readMetadata"
	actionQuery      = containerActions + "executeQuery"
	actionFeed       = containerActions + "readChangeFeed"
	actionCreate     = itemActions + "create"
	actionRead       = itemActions + "read"
	actionReplace    = itemActions + "replace"
	actionUpsert     = itemActions + "upsert"
	actionDelete     = itemActions + "delete"
	actionProcedure  = containerActions + "executeStoredProcedure"
	actionConflicts  = containerActions + "manageConflicts"
	actionOfKey      = "" // no role allows it, only the key
)

// knownActions are those that a role may have; the last two are wildcards.
var knownActions = []string{
	actionMetadata, actionQuery, actionFeed, actionCreate, actionRead, actionReplace, actionUpsert, actionDelete,
	actionProcedure, actionConflicts, containerActions + "*", itemActions + "*",
}

// RoleAssignment is what Entra ID tokens of one principal may do.
type RoleAssignment struct {
	Principal   string   // object id: the claim oid of the tokens
	Scope       string   // "/", "/dbs/NAME" or "/dbs/NAME/colls/NAME"
	DataActions []string // in full, such as Microsoft.DocumentDB/databaseAccounts/readMetadata
}

// AssignRoles replaces the role assignments of the account. Before the first call, and
// after one without assignments, every valid token may do everything, as in the
// official emulator. Else a token may do what the assignments of its principal allow, as on
// the service; requests that are signed with the key may still do everything. They are
// not kept in [Options.Data]. AssignRoles fails, and changes nothing, if a scope or an
// action is not one of the service's.
func (a *Account) AssignRoles(assignments ...RoleAssignment) error {
	for _, r := range assignments {
		if !isScope(r.Scope) {
			return fmt.Errorf(`role of %s: scope %q: write "/", "/dbs/NAME" or "/dbs/NAME/colls/NAME"`, r.Principal, r.Scope)
		}
		for _, action := range r.DataActions {
			if !slices.Contains(knownActions, action) {
				return fmt.Errorf("role of %s: %q is not a data action: write one of %s", r.Principal, action, strings.Join(knownActions, ", "))
			}
		}
	}
	if len(assignments) == 0 {
		a.roles.Store(nil)
		return nil
	}
	kept := slices.Clone(assignments)
	a.roles.Store(&kept)
	return nil
}

func isScope(scope string) bool {
	parts := strings.Split(scope, "/")
	switch {
	case scope == "/":
		return true
	case slices.Contains(parts[1:], "") || parts[0] != "":
		return false
	case len(parts) == 3:
		return parts[1] == kindDatabase
	}
	return len(parts) == 5 && parts[1] == kindDatabase && parts[3] == kindContainer
}

// grants reports whether the assignment allows an action on a resource, which is a scope.
// Reading the account itself is allowed in every scope: the service answers "on any scope"
// if it is not.
func (r RoleAssignment) grants(action, resource string) bool {
	within := r.Scope == "/" || resource == r.Scope || strings.HasPrefix(resource, r.Scope+"/") || action == actionMetadata && resource == anyScope
	return within && slices.ContainsFunc(r.DataActions, func(allowed string) bool {
		prefix, wildcard := strings.CutSuffix(allowed, "*")
		return allowed == action || wildcard && strings.HasPrefix(action, prefix)
	})
}

// anyScope is the resource of the account read.
const anyScope = ""

// permit fails if the roles of a principal do not allow the request.
func (c *call) permit(principal string) error {
	assigned := c.catalog.roles.Load()
	if assigned == nil {
		return nil
	}
	needed, err := c.actions()
	if err != nil {
		return err
	}
	resource := c.resource()
	for _, action := range needed {
		if action == actionOfKey {
			return fail(http.StatusForbidden, subKeyOnly, "Request blocked by Auth %s : The given request [%s %s] cannot be authorized by AAD token in data plane. Learn more: https://aka.ms/cosmos-native-rbac.",
				accountID, c.method, c.request.URL.Path)
		}
		granted := slices.ContainsFunc(*assigned, func(r RoleAssignment) bool {
			return r.Principal == principal && r.grants(action, resource)
		})
		if !granted {
			return lacksAction(principal, action, resource)
		}
	}
	return nil
}

// lacksAction is the answer of the service to a principal without a data action, as
// reports of its users have it.
func lacksAction(principal, action, resource string) *failure {
	request, on := "Request", "resource ["+strings.TrimPrefix(resource, "/")+"]"
	switch resource {
	case anyScope:
		request, on = "Request for Read DatabaseAccount", "any scope"
	case "/":
		on = "resource [/]"
	}
	return fail(http.StatusForbidden, subActionMissing, "Request blocked by Auth %s : %s is blocked because principal [%s] does not have required RBAC permissions to perform action [%s] on %s. Learn more: https://aka.ms/cosmos-native-rbac.",
		accountID, request, principal, action, on)
}

// resource is the scope that a request is about, by names.
func (c *call) resource() string {
	if c.target.kind == kindAccount {
		return anyScope
	}
	database, container := c.target.database, c.target.container
	a := c.catalog
	a.mu.RLock()
	defer a.mu.RUnlock()
	if d, ok := a.findDatabase(database); ok {
		database = d.Name
		if o, ok := d.find(container); ok {
			container = o.Name
		}
	}
	switch {
	case database == "":
		return "/"
	case container == "":
		return "/dbs/" + database
	}
	return "/dbs/" + database + "/colls/" + container
}

// actions are the data actions that a request needs, all of them.
func (c *call) actions() ([]string, error) {
	switch {
	case c.target.kind == kindItem && c.writes() && strings.EqualFold(c.header.Get("X-Ms-Cosmos-Is-Batch-Request"), "true"):
		return c.batchActions()
	case c.target.kind == kindItem:
		return []string{c.itemAction()}, nil
	case c.target.kind == kindKey:
		return []string{actionDelete}, nil
	case c.target.kind == kindOffer || c.writes():
		return []string{actionOfKey}, nil
	}
	return []string{actionMetadata}, nil
}

// itemAction is the data action of a request for items that is not a batch.
func (c *call) itemAction() string {
	switch {
	case c.method == http.MethodGet && c.target.id != "":
		return actionRead
	case c.method == http.MethodGet: // the feed, and lists: Azure/azure-cosmos-dotnet-v3#2927
		return actionFeed
	case c.method == http.MethodPut, c.method == http.MethodPatch:
		return actionReplace
	case c.method == http.MethodDelete:
		return actionDelete
	case !c.writes():
		return actionQuery
	case strings.EqualFold(c.header.Get("X-Ms-Documentdb-Is-Upsert"), "true"):
		return actionUpsert
	}
	return actionCreate
}

// batchActions are those of the operations of a batch.
func (c *call) batchActions() (needed []string, err error) {
	operations, err := decodeOperations(c.body)
	if err != nil {
		return nil, err
	}
	for _, o := range operations {
		action := itemActions + strings.ToLower(o.Type)
		if strings.EqualFold(o.Type, "Patch") {
			action = actionReplace
		}
		needed = append(needed, action)
	}
	return needed, nil
}
