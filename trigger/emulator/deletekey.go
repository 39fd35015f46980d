package emulator

import "net/http"

// keyDeletion is the last segment of the path that deletes a logical partition.
const keyDeletion = "partitionkeydelete"

// dispatchKey answers requests about a logical partition as a whole.
func (c *call) dispatchKey() (*response, error) {
	if c.target.id != keyDeletion || c.method != http.MethodPost {
		return nil, c.methodNotAllowed()
	}
	return c.deleteKey()
}

// deleteKey deletes all items of a partition key in one transaction. The service does so
// in the background, but hides the items at once:
// https://learn.microsoft.com/azure/cosmos-db/nosql/how-to-delete-by-partition-key.
func (c *call) deleteKey() (*response, error) {
	return c.operate(func(t *transaction) (outcome, error) {
		units := readUnits
		for i := range t.partition.items.all() {
			if i.key() == t.keyText {
				units += i.current.writeCharge()
				t.stage(i.id(), nil)
			}
		}
		return outcome{http.StatusOK, nil, units, false}, nil
	})
}
