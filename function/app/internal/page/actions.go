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
	Range    string `json:"range,omitempty"`    // lease token
	Change   string `json:"change,omitempty"`   // id of a recorded change
	Letter   string `json:"letter,omitempty"`   // id of a dead letter
	Host     string `json:"host,omitempty"`     // name
	Document string `json:"document,omitempty"` // id
}

// Arguments are further values of an action.
type Arguments struct {
	Document string `json:"document,omitempty"` // JSON text
}

// Plan is an action that can be done.
type Plan struct {
	Effects  []string // sentences, or lines of a difference that begin with + or -
	Warnings []string
	// Do does it, and returns a sentence about the result. Its context ends with the page,
	// not with the viewer.
	Do func(context.Context) (string, error)
}

// Bounds of plans and operations.
const (
	planExpiry     = time.Minute
	maxPlans       = 100
	maxRequestBody = 3 << 20
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

// take returns a plan that has not expired, once.
func (s *plans) take(id string) (waitingPlan, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.waiting[id]
	delete(s.waiting, id)
	return w, ok && time.Now().Before(w.expires)
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

func (p *Page) postPlans(w http.ResponseWriter, r *http.Request) {
	if media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); media != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, failure{"body", "the body is not application/json", ""})
		return
	}
	var request Request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBody)).Decode(&request); err != nil {
		refuse(w, http.StatusBadRequest, failure{"body", "the request cannot be read: " + err.Error(), ""})
		return
	}
	i := slices.IndexFunc(p.options.Actions, func(a Action) bool { return a.Name == request.Action })
	if i < 0 {
		refuse(w, http.StatusNotFound, failure{"action", "this process has no action " + request.Action, ""})
		return
	}
	plan, err := p.options.Actions[i].Plan(r.Context(), request)
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, failure{"plan", redact.Text(err.Error()), ""})
		return
	}
	waiting := waitingPlan{request, plan, time.Now().Add(planExpiry)}
	id, ok := p.plans.keep(waiting)
	if !ok {
		refuse(w, http.StatusTooManyRequests, failure{"plans", "too many plans wait to be done", "try again in a minute"})
		return
	}
	p.log("planned", r, request, nil)
	answer(w, http.StatusOK, struct {
		Plan     string    `json:"plan"`
		Expires  time.Time `json:"expires"`
		Effects  []string  `json:"effects"`
		Warnings []string  `json:"warnings"`
	}{id, waiting.expires.UTC(), append([]string{}, plan.Effects...), append([]string{}, plan.Warnings...)})
}

func (p *Page) postPlan(w http.ResponseWriter, r *http.Request) {
	waiting, ok := p.plans.take(r.PathValue("plan"))
	if !ok {
		refuse(w, http.StatusConflict, failure{"plan", "the plan is older than a minute, or was done already", "ask for it again"})
		return
	}
	id := p.plans.begin()
	p.working.Go(func() {
		text, err := waiting.plan.Do(p.ctx)
		p.log("done", r, waiting.request, err)
		p.plans.end(id, text, err)
		if err != nil {
			text = "failed: " + firstLine(err.Error())
		}
		p.options.Recorder.Note(Moment{
			Kind: "action", Function: waiting.request.Select.Function, Range: waiting.request.Select.Range, Host: waiting.request.Select.Host,
			Text: waiting.request.Action + ": " + text,
		})
	})
	answer(w, http.StatusAccepted, map[string]string{"operation": id})
}

func (p *Page) getOperation(w http.ResponseWriter, r *http.Request) {
	o, ok := p.plans.find(r.PathValue("id"))
	if !ok {
		refuse(w, http.StatusNotFound, failure{"operation", "there is no such operation", ""})
		return
	}
	answer(w, http.StatusOK, o)
}

// log tells of an action, without documents.
func (p *Page) log(outcome string, r *http.Request, q Request, err error) {
	p.options.Log.Info("operator action", zap.String("outcome", outcome), zap.String("action", q.Action), zap.String("function", q.Select.Function),
		zap.String("range", q.Select.Range), zap.String("host", q.Select.Host), zap.String("via", "page"), zap.String("remote", r.RemoteAddr), zap.Error(err))
}
