package emulator

import "net/http"

type store struct{}

func (s *store) close() error                                           { return nil }
func (s *store) wait(uint64) error                                      { return nil }
func (a *Account) open(string) error                                    { return fail(501, 0, "Options.Data is not there yet") }
func (a *Account) saveDatabase(*database) uint64                        { return 0 }
func (a *Account) removeDatabase(*database) uint64                      { return 0 }
func (a *Account) saveContainer(*container) uint64                      { return 0 }
func (a *Account) removeContainer(*container) uint64                    { return 0 }
func (a *Account) saveChanges(*container, *partition, []*change) uint64 { return 0 }

func (c *call) soon() (*response, error) {
	return nil, fail(http.StatusNotImplemented, 0, "not there yet")
}
func (c *call) queryDatabases() (*response, error)  { return c.soon() }
func (c *call) queryContainers() (*response, error) { return c.soon() }
func (c *call) dispatchOffer() (*response, error)   { return c.soon() }
func (c *call) listItems() (*response, error)       { return c.soon() }
func (c *call) queryItems() (*response, error)      { return c.soon() }
func (c *call) planQuery() (*response, error)       { return c.soon() }
func (c *call) batch() (*response, error)           { return c.soon() }
func (t *transaction) patch(id string, body []byte, ifMatch string) (outcome, error) {
	return outcome{}, fail(http.StatusNotImplemented, 0, "not there yet")
}
