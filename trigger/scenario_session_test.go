package trigger

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// replicaBehind is the account with two replicas, of which one is behind: it answers
// every second feed read, and has seen nothing after LSN at. Like the service under
// Session consistency, it refuses a read whose session it has not reached.
type replicaBehind struct {
	w       *world
	at      atomic.Int64 // 0 if it is not behind
	reads   atomic.Int64
	refused atomic.Int64
	stale   atomic.Int64 // answers from the past
}

func (b *replicaBehind) Do(r *http.Request) (*http.Response, error) {
	served := b.at.Load()
	if !isFeedRead(r) || served == 0 || b.reads.Add(1)%2 != 0 {
		return b.w.account.Do(r)
	}
	answer := &http.Response{StatusCode: http.StatusNotModified, Header: http.Header{}, Request: r, Body: http.NoBody}
	_, session, _ := strings.Cut(r.Header.Get("x-ms-session-token"), "#")
	if lsn, _ := strconv.ParseInt(session, 10, 64); lsn > served {
		b.refused.Add(1)
		answer.StatusCode = http.StatusNotFound
		answer.Header.Set("x-ms-substatus", "1002")
		return answer, nil
	}
	b.stale.Add(1)
	answer.Header.Set("Etag", fmt.Sprintf(`"%d"`, served))
	answer.Header.Set("x-ms-session-token", fmt.Sprintf("%s:-1#%d", r.Header.Get("x-ms-documentdb-partitionkeyrangeid"), served))
	return answer, nil
}

// If an answer has shown the changes of a moment, no later read of this host is
// answered from before it. Otherwise a replica that is behind would end the drain with
// half of the changes.
func TestDrainReadsNotBehindItsSession(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		replica := &replicaBehind{w: w}
		smallPages := func(f *Function, _ *Options) { f.MaxItemsPerInvocation, f.PageItems = 5, 5 }
		h := w.hostOn(replica, "a", w.recorder("a"), smallPages)
		w.writeMany("doc", 20)
		replica.at.Store(11)
		summary, err := h.Drain(t.Context())
		must(t, err)
		w.checkComplete(0)
		if summary.Drained != 1 || replica.refused.Load() == 0 || replica.stale.Load() > 0 {
			t.Errorf("%+v, %d reads refused, %d answered from the past", summary, replica.refused.Load(), replica.stale.Load())
		}
	})
}

// The children of a split continue the session of their parent.
func TestChildrenReadNotBehindParentsSession(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		replica := &replicaBehind{w: w}
		h := w.hostOn(replica, "a", w.recorder("a"))
		w.writeMany("doc", 20)
		_, err := h.Drain(t.Context())
		must(t, err)
		_, err = w.account.Split("db", "items", "0")
		must(t, err)
		w.writeMany("more", 20)
		replica.at.Store(11)
		_, err = h.Drain(t.Context())
		must(t, err)
		w.checkComplete(0)
		if replica.refused.Load() == 0 || replica.stale.Load() > 0 {
			t.Errorf("%d reads refused, %d answered from the past", replica.refused.Load(), replica.stale.Load())
		}
	})
}
