package emulator

import "net/http"

func (c *call) soon() (*response, error) {
	return nil, fail(http.StatusNotImplemented, 0, "not there yet")
}
func (c *call) queryDatabases() (*response, error)  { return c.soon() }
func (c *call) queryContainers() (*response, error) { return c.soon() }
func (c *call) queryOffers() (*response, error)     { return c.soon() }
func (c *call) listItems() (*response, error)       { return c.soon() }
func (c *call) queryItems() (*response, error)      { return c.soon() }
func (c *call) planQuery() (*response, error)       { return c.soon() }
func matches(condition string, doc []byte) (bool, error) {
	return false, badRequest("conditions are not there yet: %s", condition)
}
