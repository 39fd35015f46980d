package page

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"
)

// Limits of lists.
const (
	defaultLimit = 100
	maxLimit     = 500
)

func (p *Page) addAPI() {
	const api = "/api/v1/"
	for pattern, handle := range map[string]http.HandlerFunc{
		"GET " + api + "status":                p.getStatus,
		"GET " + api + "ranges":                p.getRanges,
		"GET " + api + "graphs":                p.getGraphs,
		"GET " + api + "settings":              p.getSettings,
		"GET " + api + "changes":               p.getChanges,
		"GET " + api + "changes/{id}":          p.getChange,
		"GET " + api + "changes/{id}/document": p.getDocument,
		"GET " + api + "letters":               p.getLetters,
		"GET " + api + "letters.jsonl":         p.getLettersCopy,
		"GET " + api + "leases.json":           p.getLeasesCopy,
		"GET " + api + "letters/{id}":          p.getLetter,
		"GET " + api + "letters/{id}/document": p.getLetterDocument,
		"GET " + api + "timeline":              p.getTimeline,
		"GET " + api + "stream":                func(w http.ResponseWriter, r *http.Request) { followPage(p, w, r) },
		"POST " + api + "plans":                p.postPlans,
		"POST " + api + "plans/{plan}":         p.postPlan,
		"GET " + api + "operations/{id}":       p.getOperation,
		api: func(w http.ResponseWriter, r *http.Request) {
			refuse(w, http.StatusNotFound, failure{"path", "there is nothing at " + r.URL.Path, ""})
		},
	} {
		p.mux.HandleFunc(pattern, handle)
	}
}

// status is the answer of GET status, and the event status.
type status struct {
	App       string     `json:"app"`
	Run       string     `json:"run"`
	Time      time.Time  `json:"time"`
	CanAct    bool       `json:"canAct"`
	Polled    bool       `json:"polled"`
	Failures  bool       `json:"failures"` // the changes are failed calls only
	Hidden    bool       `json:"hidden"`   // documents are neither shown nor sent
	Actions   []string   `json:"actions"`
	Health    health     `json:"health"`
	Hosts     []Host     `json:"hosts"`
	Functions []Function `json:"functions"`
	Why       []Cause    `json:"why"`
	Poison    []string   `json:"poison"`
}

func (p *Page) statusFor(r *http.Request, s State) status {
	st := status{
		App: p.options.App, Run: p.run, Time: time.Now().UTC(), CanAct: p.hasToken(r), Polled: p.options.Polled, Failures: p.options.Recorder.FailuresOnly, Hidden: p.options.Hidden, Actions: []string{},
		Health: healthOf(s, p.letterCount(r.Context())), Hosts: s.Hosts, Functions: s.Functions, Why: append([]Cause{}, s.Why...), Poison: append([]string{}, s.Poison...),
	}
	for _, a := range p.options.Actions {
		st.Actions = append(st.Actions, a.Name)
	}
	return st
}

// letterCount is the number of dead letters, or -1 before it is known.
func (p *Page) letterCount(ctx context.Context) int {
	if l, ok := p.newestLetters(ctx); ok {
		return l.Total
	}
	return -1
}

func (p *Page) getStatus(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusOK, p.statusFor(r, p.state(r.Context())))
}

func (p *Page) getRanges(w http.ResponseWriter, r *http.Request) {
	answerTagged(w, r, p.rangesFor(p.state(r.Context()), rangeQueryOf(r, "after")))
}

func (p *Page) getSettings(w http.ResponseWriter, r *http.Request) {
	answerTagged(w, r, items[Setting]{Items: append([]Setting{}, p.options.Source.Settings...), Total: len(p.options.Source.Settings)})
}

func (p *Page) getGraphs(w http.ResponseWriter, r *http.Request) {
	graphs := p.options.Recorder.listGraphs()
	answerTagged(w, r, items[Graph]{Items: graphs, Total: len(graphs)})
}

func (p *Page) getTimeline(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.ParseInt(query(r, "after"), 10, 64) // 0 is all
	moments := p.options.Recorder.timeline(after)
	answerTagged(w, r, items[Moment]{Items: moments, Total: len(moments)})
}

// query is a value of the address. (http.Request.FormValue would link the parsers of mails.)
func query(r *http.Request, name string) string { return r.URL.Query().Get(name) }

func filterOf(r *http.Request) filter {
	return filter{Function: query(r, "function"), Key: query(r, "key"), Range: query(r, "range"), State: ChangeState(query(r, "state"))}
}

func limitOf(r *http.Request) int {
	n, err := strconv.Atoi(query(r, "limit"))
	if err != nil || n < 1 {
		return defaultLimit
	}
	return min(n, maxLimit)
}

func (p *Page) getChanges(w http.ResponseWriter, r *http.Request) {
	if since := query(r, "since"); since != "" {
		version, err := strconv.ParseInt(since, 10, 64)
		if err != nil {
			refuse(w, http.StatusBadRequest, failure{"since", "since is not a version", "leave it out"})
			return
		}
		answer(w, http.StatusOK, p.options.Recorder.updated(filterOf(r), version, limitOf(r)))
		return
	}
	answerTagged(w, r, p.options.Recorder.list(filterOf(r), query(r, "after"), limitOf(r)))
}

func (p *Page) getChange(w http.ResponseWriter, r *http.Request) {
	detail, _, ok := p.options.Recorder.Find(r.PathValue("id"))
	if !ok {
		refuse(w, http.StatusNotFound, failure{"change", ErrDropped.Error(), "the page keeps the newest changes only"})
		return
	}
	if p.options.Hidden {
		detail.image, detail.Hidden = image{}, true
	}
	answer(w, http.StatusOK, detail)
}

func (p *Page) getDocument(w http.ResponseWriter, r *http.Request) {
	_, change, ok := p.options.Recorder.Find(r.PathValue("id"))
	if !ok {
		refuse(w, http.StatusNotFound, failure{"change", ErrDropped.Error(), "the page keeps the newest changes only"})
		return
	}
	p.download(w, r.PathValue("id"), change.Document)
}

// download sends a document as it was written. No browser shows it as a page.
func (p *Page) download(w http.ResponseWriter, id string, document []byte) {
	if p.refusedHidden(w) {
		return
	}
	h := w.Header()
	attach(h, fileName(id)+".json")
	h.Set("Content-Length", strconv.Itoa(len(document)))
	_, _ = w.Write(document) // the viewer may have gone
}

// attach makes an answer a file, which no browser shows as a page.
func attach(h http.Header, name string) {
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
}

func (p *Page) refusedHidden(w http.ResponseWriter) bool {
	if p.options.Hidden {
		refuse(w, http.StatusForbidden, failure{"hidden", "documents are hidden on this page", "use the command deadletters"})
	}
	return p.options.Hidden
}

// fileName keeps the letters and digits of an id.
func fileName(id string) string {
	name := []byte{}
	for _, c := range []byte(id) {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			name = append(name, c)
		}
	}
	return string(name[:min(len(name), 64)])
}

func (p *Page) getLetters(w http.ResponseWriter, r *http.Request) {
	l := p.letterList(r.Context(), letterQueryOf(r))
	if l.err != nil {
		refuse(w, http.StatusBadRequest, failure{"after", l.err.Error(), ""})
		return
	}
	answerTagged(w, r, l.items)
}

// letterQueryOf is the query of the dead letters that a request asks for.
func letterQueryOf(r *http.Request) LetterQuery {
	return LetterQuery{Function: query(r, "function"), Range: query(r, "range"), Key: query(r, "key"), Error: query(r, "error"), After: query(r, "after"), Limit: limitOf(r)}
}

func (p *Page) getLetter(w http.ResponseWriter, r *http.Request) {
	d, err := p.options.Source.FindDeadLetter(r.Context(), r.PathValue("id"))
	if err != nil {
		refuse(w, http.StatusNotFound, failure{"letter", err.Error(), "it was delivered again or discarded"})
		return
	}
	answer(w, http.StatusOK, p.detailOf(d))
}

func (p *Page) getLetterDocument(w http.ResponseWriter, r *http.Request) {
	d, err := p.options.Source.FindDeadLetter(r.Context(), r.PathValue("id"))
	if err != nil {
		refuse(w, http.StatusNotFound, failure{"letter", err.Error(), "it was delivered again or discarded"})
		return
	}
	p.download(w, d.ID, d.Document)
}

// getLettersCopy sends the selected dead letters as a file.
func (p *Page) getLettersCopy(w http.ResponseWriter, r *http.Request) {
	write := p.options.Source.ExportDeadLetters
	if write == nil {
		http.NotFound(w, r)
		return
	}
	if p.refusedHidden(w) {
		return
	}
	selected := selectionOf(r.URL.Query())
	p.sendCopy(w, "dead-letters.jsonl", func(out io.Writer) error { return write(r.Context(), out, selected) })
}

// getLeasesCopy sends the leases of a function as a file.
func (p *Page) getLeasesCopy(w http.ResponseWriter, r *http.Request) {
	write := p.options.Source.ExportLeases
	if write == nil {
		http.NotFound(w, r)
		return
	}
	p.sendCopy(w, "leases.json", func(out io.Writer) error { return write(r.Context(), out, query(r, "function")) })
}

// sendCopy sends a file. If that fails in the middle, the connection ends before the
// file does, so that the viewer learns of it.
func (p *Page) sendCopy(w http.ResponseWriter, name string, write func(io.Writer) error) {
	attach(w.Header(), name)
	if err := write(w); err != nil {
		p.options.Log.Error("copy not sent", zap.String("file", name), zap.Error(err))
		panic(http.ErrAbortHandler)
	}
}
