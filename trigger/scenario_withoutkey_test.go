package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// withoutKey is the network of a host to which the monitored container has no partition
// key, as a container of an old API version.
func withoutKey(w *world) hostNetwork {
	return hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
		if !strings.HasSuffix(r.URL.Path, "/colls/items") {
			return nil, nil, false
		}
		resp, err := w.account.Do(r)
		if err != nil {
			return nil, err, true
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		properties := map[string]json.RawMessage{}
		if err == nil {
			err = json.Unmarshal(body, &properties)
		}
		delete(properties, "partitionKey")
		body, _ = json.Marshal(properties)
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return resp, err, true
	}}
}

func TestContainerWithoutPartitionKeyIsOneKey(t *testing.T) {
	for _, lanes := range []int{1, 4} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			store := &memoryStore{}
			settings := withStore(store, func(f *Function) { f.BlockKeys, f.MaxItemsPerInvocation, f.Lanes = true, 1, lanes })
			var handled []string
			refusing := true
			handler := func(_ context.Context, b Batch) error {
				for _, c := range b.Changes {
					if key := string(c.PartitionKey()); key != "[]" {
						t.Errorf("%s has the key %s", c.ID(), key)
					}
					if refusing {
						return RetryAfter(errors.New("refused"), 5*time.Minute)
					}
					handled = append(handled, c.ID())
				}
				return nil
			}
			w.write("x", "first")
			w.write("y", "second")
			stop := w.startHost(w.hostOn(withoutKey(w), "a", handler, settings))
			time.Sleep(time.Minute)
			w.write("z", "third")
			time.Sleep(time.Minute)
			stop()
			refusing = false
			stop = w.startHost(w.hostOn(withoutKey(w), "b", handler, settings))
			time.Sleep(5 * time.Minute)
			w.write("x", "fourth")
			time.Sleep(time.Minute)
			stop()
			if fmt.Sprint(handled) != "[first second third fourth]" || len(store.deadLetters) > 0 {
				t.Errorf("handled %v, stored %v", handled, store.documentIDs())
			}
		})
	}
}
