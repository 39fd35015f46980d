package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	maxStreams   = 8
	streamEvery  = 250 * time.Millisecond // between two updates of a viewer
	pingEvery    = 15 * time.Second
	maxUpdates   = 200              // changes in one update
	viewerPeriod = 10 * time.Second // in which a viewer must take an update
)

// viewers bounds the streams.
type viewers struct{ count atomic.Int64 }

// followPage sends updates until the viewer leaves. The id of an event is the run and the
// version of the newest change that the viewer has; after a reconnect it gets the
// changes since. If that is not possible, the event reset tells it to read all again.
func followPage(p *Page, w http.ResponseWriter, r *http.Request) {
	if p.options.Polled {
		refuse(w, http.StatusNotFound, failure{"stream", "there is no stream here", "ask for the data every few seconds"})
		return
	}
	if p.viewers.count.Add(1) > maxStreams {
		p.viewers.count.Add(-1)
		refuse(w, http.StatusServiceUnavailable, failure{"streams", fmt.Sprintf("%d pages are open", maxStreams), "close one; until then this page asks for updates every few seconds"})
		return
	}
	defer p.viewers.count.Add(-1)
	s := &stream{page: p, out: w, control: http.NewResponseController(w), request: r, filter: filterOf(r), ranges: rangeQueryOf(r, "rangesAfter"), rows: map[string]string{}}
	_ = s.control.SetReadDeadline(time.Time{}) // that of the server ends no stream
	run, version, _ := strings.Cut(r.Header.Get("Last-Event-ID"), "-")
	if run == "" {
		run, version = query(r, "run"), query(r, "since")
	}
	since, err := strconv.ParseInt(version, 10, 64)
	w.Header().Set("Content-Type", "text/event-stream")
	if run != p.run || err != nil {
		s.version = p.options.Recorder.list(filter{}, "", 1).Version
		if s.send("reset", map[string]string{"run": p.run}) != nil {
			return
		}
	} else {
		s.version = since
	}
	s.moment, _ = strconv.ParseInt(query(r, "moment"), 10, 64) // 0 is all
	s.follow()
}

// stream is the connection of one viewer. One goroutine uses it.
type stream struct {
	page    *Page
	out     http.ResponseWriter
	control *http.ResponseController
	request *http.Request
	filter  filter
	ranges  rangeQuery

	version int64             // of the newest change that was sent
	moment  int64             // number of the newest moment that was sent
	letters string            // mark of the dead letters that were sent
	status  string            // as it was sent, without its time
	rows    map[string]string // ranges as they were sent
	list    string            // of the ranges that was sent, without their rows
	sent    time.Time         // last event
}

func (s *stream) follow() {
	beat := time.NewTicker(streamEvery)
	defer beat.Stop()
	for {
		if err := s.update(); err != nil {
			return // the viewer has gone
		}
		select {
		case <-s.request.Context().Done():
			return
		case <-s.page.ctx.Done():
			return
		case <-beat.C:
		}
	}
}

// update sends all that is new.
func (s *stream) update() error {
	recorder := s.page.options.Recorder
	if l := recorder.updated(s.filter, s.version, maxUpdates); l.Version != s.version {
		s.version = l.Version
		if err := s.send("change", l); err != nil {
			return err
		}
	}
	state := s.page.state(s.request.Context())
	if err := s.sendRanges(state); err != nil {
		return err
	}
	if moments := recorder.timeline(s.moment); len(moments) > 0 {
		s.moment = moments[len(moments)-1].Number
		if err := s.send("timeline", items[Moment]{Items: moments, Total: len(moments)}); err != nil {
			return err
		}
	}
	if list, ok := s.page.newestLetters(s.request.Context()); ok && list.mark() != s.letters {
		s.letters = list.mark()
		if err := s.send("letter", map[string]int{"total": list.Total}); err != nil {
			return err
		}
	}
	return s.sendStatus(state)
}

// sendStatus sends the status if it has changed, and at least with each ping.
func (s *stream) sendStatus(state State) error {
	st := s.page.statusFor(s.request, state)
	now := st.Time
	st.Time = time.Time{}
	text, err := json.Marshal(st)
	if err != nil {
		return err
	}
	if string(text) == s.status && time.Since(s.sent) < pingEvery {
		return nil
	}
	s.status, st.Time = string(text), now
	return s.send("status", st)
}

// rangeUpdate is the event range: the rows of a list that have changed, and the keys of all.
type rangeUpdate struct {
	items[Range]
	Keys []string `json:"keys"` // FUNCTION, a line break and RANGE
}

// sendRanges sends the rows that have changed of the list that the viewer looks at.
func (s *stream) sendRanges(state State) error {
	found := s.page.rangesFor(state, s.ranges)
	u := rangeUpdate{items: found, Keys: []string{}}
	u.Items = []Range{}
	rows := map[string]string{}
	for _, r := range found.Items {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		u.Keys = append(u.Keys, r.key())
		if rows[r.key()] = string(text); s.rows[r.key()] != string(text) {
			u.Items = append(u.Items, r)
		}
	}
	list := fmt.Sprint(u.Total, u.Next, u.Keys)
	if len(u.Items) == 0 && list == s.list {
		return nil
	}
	s.rows, s.list = rows, list
	return s.send("range", u)
}

// send writes one event. JSON has no line breaks.
func (s *stream) send(event string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "id: %s-%d\nevent: %s\ndata: %s\n\n", s.page.run, s.version, event, text)
	_ = s.control.SetWriteDeadline(time.Now().Add(viewerPeriod)) // a server has it; a recorder in tests need not
	if _, err := s.out.Write(b.Bytes()); err != nil {
		return err
	}
	s.sent = time.Now()
	return s.control.Flush()
}
