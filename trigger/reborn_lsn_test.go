package trigger

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// restarted is the account, with the LSNs of documents set back as by a merge
// that counts anew.
type restarted struct {
	w    *world
	back int64
}

func (c *restarted) Do(r *http.Request) (*http.Response, error) {
	resp, err := c.w.account.Do(r)
	if err != nil || r.Header.Get("A-IM") == "" || c.back == 0 {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	for lsn := c.back + 1; lsn < 100; lsn++ {
		body = bytes.ReplaceAll(body, fmt.Appendf(nil, `"_lsn":%d}`, lsn), fmt.Appendf(nil, `"_lsn":%d}`, lsn-c.back))
		body = bytes.ReplaceAll(body, fmt.Appendf(nil, `"_lsn":%d,`, lsn), fmt.Appendf(nil, `"_lsn":%d,`, lsn-c.back))
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return resp, err
}

// TestLaterVersionWithTheLSNOfALetter is given up on its own account.
func TestLaterVersionWithTheLSNOfALetter(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		via := &restarted{w: w}
		client := w.clientOn(via)
		store := &letters{}
		drain := func() {
			h := w.host("a", allergic(w.record("a")), withLetters(store), func(f *Function, _ *Options) { f.Container = client.Container("db", "items") })
			_, err := h.Drain(t.Context())
			must(t, err)
		}
		w.write("k", "poison")
		drain()
		w.write("k", "poison") // version 2
		via.back = 1           // "merge": version 2 gets the LSN that version 1 had
		drain()
		if len(store.all) != 2 {
			t.Errorf("version 2 is neither handled nor in the store, %d letters", len(store.all))
		}
	})
}
