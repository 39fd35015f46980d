package cosmos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// DeleteDatabase deletes a database with its containers. If it does not exist,
// [IsNotFound] holds for the error.
func (c *Client) DeleteDatabase(ctx context.Context, id string) error {
	link := "dbs/" + id
	return c.drop(ctx, &operation{name: "delete database", kind: "dbs", parent: link, link: link, path: "/dbs/" + url.PathEscape(id)})
}

// DeleteContainer deletes a container with its documents. If it does not exist,
// [IsNotFound] holds for the error.
func (c *Client) DeleteContainer(ctx context.Context, database, id string) error {
	container := c.Container(database, id)
	err := c.drop(ctx, &operation{name: "delete container", kind: "colls", parent: container.link, link: container.link, path: container.path})
	container.Forget()
	return err
}

func (c *Client) drop(ctx context.Context, op *operation) error {
	op.method, op.write = http.MethodDelete, true
	_, err := c.do(ctx, op)
	return err
}

// SetThroughput changes the throughput of a container or database that has one of its
// own. resourceID is its [ContainerProperties].ResourceID.
func (c *Client) SetThroughput(ctx context.Context, resourceID string, unitsPerSecond int) error {
	var list struct{ Offers []map[string]json.RawMessage }
	if err := c.readResource(ctx, "read offers", "offers", "", "/offers", &list); err != nil {
		return err
	}
	for _, offer := range list.Offers {
		var owner, id string
		if json.Unmarshal(offer["offerResourceId"], &owner) != nil || owner != resourceID || json.Unmarshal(offer["_rid"], &id) != nil {
			continue
		}
		content, err := json.Marshal(map[string]int{"offerThroughput": unitsPerSecond})
		if err != nil {
			return err
		}
		offer["content"] = content
		body, err := json.Marshal(offer)
		if err != nil {
			return err
		}
		_, err = c.do(ctx, &operation{
			name: "replace offer", kind: "offers", parent: strings.ToLower(id), link: "offers/" + id,
			method: http.MethodPut, path: "/offers/" + url.PathEscape(id), write: true, body: body,
		})
		return err
	}
	return fmt.Errorf("resource %s has no throughput of its own", resourceID)
}
