package emulator

import "net/http"

// dispatchUsers answers requests for users and their permissions. There are none: clients
// sign with the account's key.
func (c *call) dispatchUsers() (*response, error) {
	rid, err := c.databaseRID()
	switch {
	case err != nil:
		return nil, err
	case c.target.kind == kindPermission || c.target.id != "":
		return nil, notFound("user")
	}
	return c.emptyList(rid, "Users")
}

// databaseRID is the resource id of the database of the path.
func (c *call) databaseRID() (string, error) {
	a := c.catalog
	a.mu.RLock()
	defer a.mu.RUnlock()
	d, ok := a.findDatabase(c.target.database)
	if !ok {
		return "", notFound("database")
	}
	return d.rid(), nil
}

// dispatchConflicts answers requests for the conflicts of a container. The last writer wins: there are none.
func (c *call) dispatchConflicts() (*response, error) {
	o, err := c.container()
	if err != nil {
		return nil, err
	}
	if c.target.id != "" {
		return nil, c.refuse(o, notFound("conflict"))
	}
	r, err := c.emptyList(o.rid, "Conflicts")
	if err != nil {
		return nil, c.refuse(o, err)
	}
	return c.locked(o, func() (*response, error) {
		o.Partitions[0].stamp(r)
		return r.charge(readUnits), nil
	})
}

// emptyList answers a read or a query of resources of which there are none.
func (c *call) emptyList(rid, name string) (*response, error) {
	switch {
	case c.method == http.MethodGet:
		return list(rid, name, nil), nil
	case c.method == http.MethodPost && c.isQuery():
		return c.queryBodies(rid, name, nil)
	case c.method == http.MethodPost:
		return nil, unsupported("The resource type "+c.target.kind, "")
	}
	return nil, c.methodNotAllowed()
}
