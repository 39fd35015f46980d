package page

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger"
	"halley/trigger/redact"
)

// Action is something that a viewer with the token may do. The viewer first asks for a
// plan, sees its effects, and then has it done.
type Action struct {
	Name string
	// Plan says what the action would do, and does nothing. Its error is for the viewer.
	Plan func(context.Context, Request) (Plan, error)
}

// Request is what a viewer asks for.
type Request struct {
	Action string    `json:"action"`
	Select Selection `json:"select"`
	Args   Arguments `json:"args"`
}

// Selection names the objects of an action. Each action says which fields it needs.
type Selection struct {
	Function string `json:"function,omitempty"`
	Range    string `json:"range,omitempty"`  // lease token
	Key      string `json:"key,omitempty"`    // part of a key or a document id
	Error    string `json:"error,omitempty"`  // part of the error of a dead letter
	Change   string `json:"change,omitempty"` // id of a recorded change
	Letter   string `json:"letter,omitempty"` // id of a dead letter

	IDs      []string `json:"ids,omitempty"`      // of several dead letters
	Host     string   `json:"host,omitempty"`     // name
	Document string   `json:"document,omitempty"` // id
}

// Wants reports whether the selection has a dead letter.
func (s Selection) Wants(d trigger.DeadLetter) bool {
	f := filter{Function: s.Function, Key: s.Key, Range: s.Range}
	return (s.Letter == "" || s.Letter == d.ID) && (len(s.IDs) == 0 || slices.Contains(s.IDs, d.ID)) && strings.Contains(d.Error, s.Error) && f.wants(&Summary{Function: d.Function, Key: d.Key, DocumentID: d.DocumentID, Range: d.Range})
}

// Arguments are further values of an action.
type Arguments struct {
	Document string `json:"document,omitempty"` // JSON text
	Reason   string `json:"reason,omitempty"`   // of a pause
	To       string `json:"to,omitempty"`       // position of a seek
	Force    bool   `json:"force,omitempty"`    // owners are not waited for
}

// Plan is an action that can be done.
type Plan struct {
	Effects  []string // sentences, or lines of a difference that begin with + or -
	Warnings []string
	Count    int    // of the objects that change; 0 is one
	Confirm  string // what the viewer types before the action is done; "" is nothing
	Export   string // relative address of a copy of the objects, or ""

	// Moved returns an error if the objects are no longer as the viewer saw them, so that
	// the effects are not those of the plan. It may be nil.
	Moved func(context.Context) error
	// Do does it, and returns a sentence about the result. Its context ends with the page,
	// not with the viewer.
	Do func(context.Context) (string, error)
}

// Bounds of plans and operations.
const (
	planExpiry     = time.Minute
	maxPlans       = 100
	maxRequestBody = 3 << 20
	maxForm        = 16 << 10
)

// plans are the plans and operations of all viewers.
type plans struct {
	mu         sync.Mutex // guards the fields below
	waiting    map[string]waitingPlan
	operations map[string]*operation
	order      []string // of the operations
}

type waitingPlan struct {
	request Request
	plan    Plan
	expires time.Time
}

// operation is an action that was begun.
type operation struct {
	State  string `json:"state"` // running, done or failed
	Done   int    `json:"done"`
	Failed int    `json:"failed"`
	Total  int    `json:"total"`
	Text   string `json:"text,omitempty"` // the result or the error
}

func (s *plans) init() {
	s.waiting, s.operations = map[string]waitingPlan{}, map[string]*operation{}
}

func (s *plans) keep(w waitingPlan) (id string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, old := range s.waiting {
		if time.Now().After(old.expires) {
			delete(s.waiting, id)
		}
	}
	if len(s.waiting) >= maxPlans {
		return "", false
	}
	id = rand.Text()
	s.waiting[id] = w
	return id, true
}

// wrongConfirmation is the code of a failure after which the plan can still be done.
const wrongConfirmation = "confirm"

// take returns a plan that has not expired, once. If the confirmation is wrong, the plan
// stays.
func (s *plans) take(id, confirm string) (w waitingPlan, refused *failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.waiting[id]
	if !ok || !time.Now().Before(w.expires) {
		delete(s.waiting, id)
		return w, &failure{"plan", "the plan is older than a minute, or was done already", "ask for it again"}
	}
	if w.plan.Confirm != confirm {
		return w, &failure{wrongConfirmation, "the confirmation is not " + w.plan.Confirm, "type " + w.plan.Confirm + ", the number of objects"}
	}
	delete(s.waiting, id)
	return w, nil
}

// begin adds an operation and forgets old ones that have ended.
func (s *plans) begin() (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = slices.DeleteFunc(s.order, func(id string) bool {
		drop := len(s.operations) >= maxPlans && s.operations[id].State != "running"
		if drop {
			delete(s.operations, id)
		}
		return drop
	})
	id = rand.Text()
	s.operations[id] = &operation{State: "running", Total: 1}
	s.order = append(s.order, id)
	return id
}

func (s *plans) end(id, text string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.operations[id]
	if o.State, o.Text = "done", text; err != nil {
		o.State, o.Text, o.Failed = "failed", redact.Text(err.Error()), 1
		return
	}
	o.Done = 1
}

func (s *plans) find(id string) (operation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.operations[id]
	if !ok {
		return operation{}, false
	}
	return *o, true
}

// makePlan keeps a plan for a minute. It returns the status of a refusal.
func (p *Page) makePlan(r *http.Request, request Request) (id string, w waitingPlan, status int, refused *failure) {
	i := slices.IndexFunc(p.options.Actions, func(a Action) bool { return a.Name == request.Action })
	if i < 0 {
		return "", w, http.StatusNotFound, &failure{"action", "this process has no action " + request.Action, ""}
	}
	plan, err := p.options.Actions[i].Plan(r.Context(), request)
	if err != nil {
		return "", w, http.StatusUnprocessableEntity, &failure{"plan", redact.Text(err.Error()), ""}
	}
	w = waitingPlan{request, plan, time.Now().Add(planExpiry)}
	id, ok := p.plans.keep(w)
	if !ok {
		return "", w, http.StatusTooManyRequests, &failure{"plans", "too many plans wait to be done", "try again in a minute"}
	}
	p.log("planned", r, id, w, nil)
	return id, w, http.StatusOK, nil
}

// carryOut begins to do a plan, unless something has moved since.
func (p *Page) carryOut(r *http.Request, plan, confirm string) (operation string, w waitingPlan, refused *failure) {
	w, refused = p.plans.take(plan, confirm)
	if refused != nil {
		return "", w, refused
	}
	if w.plan.Moved != nil {
		if err := w.plan.Moved(r.Context()); err != nil {
			p.log("refused", r, plan, w, err)
			return "", w, &failure{"moved", "nothing was done: " + redact.Text(err.Error()), "ask for the plan again"}
		}
	}
	operation = p.plans.begin()
	done := make(chan struct{})
	p.working.Go(func() {
		defer close(done)
		text, err := w.plan.Do(p.ctx)
		outcome := "done"
		if err != nil {
			outcome = "failed"
		}
		p.log(outcome, r, plan, w, err)
		p.plans.end(operation, text, err)
		if err != nil {
			text = "failed: " + firstLine(err.Error())
		}
		of := w.request.Select
		p.options.Recorder.Note(Moment{Kind: "action", Function: of.Function, Range: of.Range, Host: of.Host, Text: w.request.Action + ": " + text})
	})
	if p.options.Polled { // a host may stop the process between two calls
		select {
		case <-done:
		case <-r.Context().Done():
		}
	}
	return operation, w, nil
}

// readBody reads a request of the script. It returns false after it has refused one.
func readBody(w http.ResponseWriter, r *http.Request, v any) bool {
	if media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); media != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, failure{"body", "the body is not application/json", ""})
		return false
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBody)).Decode(v); err != nil {
		refuse(w, http.StatusBadRequest, failure{"body", "the request cannot be read: " + err.Error(), ""})
		return false
	}
	return true
}

func (p *Page) postPlans(w http.ResponseWriter, r *http.Request) {
	var request Request
	if !readBody(w, r, &request) {
		return
	}
	id, kept, status, refused := p.makePlan(r, request)
	if refused != nil {
		refuse(w, status, *refused)
		return
	}
	answer(w, http.StatusOK, struct {
		Plan     string    `json:"plan"`
		Expires  time.Time `json:"expires"`
		Effects  []string  `json:"effects"`
		Warnings []string  `json:"warnings"`
		Confirm  string    `json:"confirm,omitempty"`
		Export   string    `json:"export,omitempty"`
	}{id, kept.expires.UTC(), append([]string{}, kept.plan.Effects...), append([]string{}, kept.plan.Warnings...), kept.plan.Confirm, kept.plan.Export})
}

func (p *Page) postPlan(w http.ResponseWriter, r *http.Request) {
	var body struct{ Confirm string }
	if !readBody(w, r, &body) {
		return
	}
	operation, _, refused := p.carryOut(r, r.PathValue("plan"), body.Confirm)
	if refused != nil {
		refuse(w, http.StatusConflict, *refused)
		return
	}
	answer(w, http.StatusAccepted, map[string]string{"operation": operation})
}

func (p *Page) getOperation(w http.ResponseWriter, r *http.Request) {
	o, ok := p.plans.find(r.PathValue("id"))
	if !ok {
		refuse(w, http.StatusNotFound, failure{"operation", "there is no such operation", ""})
		return
	}
	answer(w, http.StatusOK, o)
}

// log tells of an action, without documents. The first letters of the plan join its
// lines.
func (p *Page) log(outcome string, r *http.Request, plan string, w waitingPlan, err error) {
	of := w.request.Select
	fields := []zap.Field{
		zap.String("outcome", outcome), zap.String("action", w.request.Action), zap.String("function", of.Function), zap.String("range", of.Range),
		zap.Int("count", max(w.plan.Count, 1)), zap.String("plan", plan[:min(len(plan), 8)]), zap.String("via", "page"), zap.String("remote", r.RemoteAddr),
	}
	for name, value := range map[string]string{"host": of.Host, "letter": of.Letter, "key": of.Key, "errorContains": of.Error, "to": w.request.Args.To, "reason": w.request.Args.Reason} {
		if value != "" {
			fields = append(fields, zap.String(name, value))
		}
	}
	if err != nil {
		fields = append(fields, zap.String("error", redact.Text(err.Error())))
	}
	p.options.Log.Info("operator action", fields...)
}
