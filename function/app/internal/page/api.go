package page

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// failure is the answer to a request that is refused or fails.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Next    string `json:"next,omitempty"` // the next step of the viewer
}

func refuse(w http.ResponseWriter, status int, f failure) { answer(w, status, f) }

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the viewer may have gone
}

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
		"GET " + api + "settings":              p.getSettings,
		"GET " + api + "changes":               p.getChanges,
		"GET " + api + "changes/{id}":          p.getChange,
		"GET " + api + "changes/{id}/document": p.getDocument,
		"GET " + api + "letters":               p.getLetters,
		"GET " + api + "letters/{id}":          p.getLetter,
		"GET " + api + "letters/{id}/document": p.getLetterDocument,
		"GET " + api + "timeline":              p.getTimeline,
		"GET " + api + "stream":                p.getStream,
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
	Actions   []string   `json:"actions"`
	Health    health     `json:"health"`
	Hosts     []Host     `json:"hosts"`
	Functions []Function `json:"functions"`
	Poison    []string   `json:"poison"`
}

func (p *Page) statusFor(r *http.Request, s State) status {
	st := status{
		App: p.options.App, Run: p.run, Time: time.Now().UTC(), CanAct: p.hasToken(r), Actions: []string{},
		Health: healthOf(s, p.letterList(r.Context()).total), Hosts: s.Hosts, Functions: s.Functions, Poison: append([]string{}, s.Poison...),
	}
	for _, a := range p.options.Actions {
		st.Actions = append(st.Actions, a.Name)
	}
	return st
}

func (p *Page) getStatus(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusOK, p.statusFor(r, p.state(r.Context())))
}

// items is the answer of a list.
type items[T any] struct {
	Items   []T    `json:"items"`
	Total   int    `json:"total"`
	Next    string `json:"next,omitempty"`
	Problem string `json:"problem,omitempty"`
}

func (p *Page) getRanges(w http.ResponseWriter, r *http.Request) {
	s := p.state(r.Context())
	answer(w, http.StatusOK, items[Range]{Items: append([]Range{}, s.Ranges...), Total: len(s.Ranges)})
}

func (p *Page) getSettings(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, items[Setting]{Items: append([]Setting{}, p.options.Source.Settings...), Total: len(p.options.Source.Settings)})
}

func (p *Page) getTimeline(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.ParseInt(r.FormValue("after"), 10, 64) // 0 is all
	moments := p.options.Recorder.timeline(after)
	answer(w, http.StatusOK, items[Moment]{Items: moments, Total: len(moments)})
}

func filterOf(r *http.Request) filter {
	return filter{Function: r.FormValue("function"), Key: r.FormValue("key"), Range: r.FormValue("range"), State: ChangeState(r.FormValue("state"))}
}

func limitOf(r *http.Request) int {
	n, err := strconv.Atoi(r.FormValue("limit"))
	if err != nil || n < 1 {
		return defaultLimit
	}
	return min(n, maxLimit)
}

func (p *Page) getChanges(w http.ResponseWriter, r *http.Request) {
	if since := r.FormValue("since"); since != "" {
		version, err := strconv.ParseInt(since, 10, 64)
		if err != nil {
			refuse(w, http.StatusBadRequest, failure{"since", "since is not a version", "leave it out"})
			return
		}
		answer(w, http.StatusOK, p.options.Recorder.updated(filterOf(r), version, limitOf(r)))
		return
	}
	answer(w, http.StatusOK, p.options.Recorder.list(filterOf(r), r.FormValue("after"), limitOf(r)))
}

func (p *Page) getChange(w http.ResponseWriter, r *http.Request) {
	detail, _, ok := p.options.Recorder.Find(r.PathValue("id"))
	if !ok {
		refuse(w, http.StatusNotFound, failure{"change", ErrDropped.Error(), "the page keeps the newest changes only"})
		return
	}
	answer(w, http.StatusOK, detail)
}

func (p *Page) getDocument(w http.ResponseWriter, r *http.Request) {
	_, change, ok := p.options.Recorder.Find(r.PathValue("id"))
	if !ok {
		refuse(w, http.StatusNotFound, failure{"change", ErrDropped.Error(), "the page keeps the newest changes only"})
		return
	}
	download(w, r.PathValue("id"), change.Document)
}

// download sends a document as it was written. No browser shows it as a page.
func download(w http.ResponseWriter, id string, document []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+fileName(id)+`.json"`)
	h.Set("Content-Length", strconv.Itoa(len(document)))
	_, _ = w.Write(document) // the viewer may have gone
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
	list, f := p.letterList(r.Context()), filterOf(r)
	l := items[letterRow]{Items: []letterRow{}, Total: list.total, Problem: list.problem}
	after := r.FormValue("after")
	skip := slices.ContainsFunc(list.rows, func(row letterRow) bool { return row.ID == after })
	for _, row := range slices.Backward(list.rows) {
		switch {
		case skip:
			skip = row.ID != after
		case !f.wants(&Summary{Function: row.Function, Key: row.Key, DocumentID: row.DocumentID, Range: row.Range, State: f.State}):
		case len(l.Items) == limitOf(r):
			l.Next = l.Items[len(l.Items)-1].ID
			answer(w, http.StatusOK, l)
			return
		default:
			l.Items = append(l.Items, row)
		}
	}
	answer(w, http.StatusOK, l)
}

func (p *Page) getLetter(w http.ResponseWriter, r *http.Request) {
	d, err := p.findLetter(r.Context(), r.PathValue("id"))
	if err != nil {
		refuse(w, http.StatusNotFound, failure{"letter", err.Error(), "it was delivered again or discarded"})
		return
	}
	answer(w, http.StatusOK, detailOf(d))
}

func (p *Page) getLetterDocument(w http.ResponseWriter, r *http.Request) {
	d, err := p.findLetter(r.Context(), r.PathValue("id"))
	if err != nil {
		refuse(w, http.StatusNotFound, failure{"letter", err.Error(), "it was delivered again or discarded"})
		return
	}
	download(w, d.ID, d.Document)
}
