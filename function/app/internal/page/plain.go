package page

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The page without a script: the same data and actions, with links and forms. An action
// is chosen, then its plan is shown, then it is done.
func (p *Page) addPlain() {
	p.mux.HandleFunc("GET /plain", p.showPlain)
	p.mux.HandleFunc("GET /plain-letter", p.showLetter)
	p.mux.HandleFunc("GET /plain-act", p.showActions)
	p.mux.HandleFunc("POST /plain-plan", p.showPlan)
	p.mux.HandleFunc("POST /plain-do", p.showResult)
	p.mux.HandleFunc("GET /plain-operation", p.showOperation)
	p.mux.HandleFunc("GET "+signInPath, func(w http.ResponseWriter, r *http.Request) { p.showSignIn(w, r, http.StatusOK, "") })
}

// showSignIn asks for the token. The address of the form has the filters of the address that the
// viewer has opened, so that a link to one range or dead letter leads there.
func (p *Page) showSignIn(w http.ResponseWriter, r *http.Request, status int, problem string) {
	var m markup
	m.add(`<section><p class="problem" role="alert">%s</p><form method="post" action="sign-in%s" class="fields"><input name="user" value="operator" autocomplete="username" hidden>
<label>Token of the page, as in HALLEY_PAGE_TOKEN <input name="token" type="password" required autofocus autocomplete="current-password"></label>
<button class="primary">Sign in</button></form></section>`, problem, filtersOf(r))
	m.write(w, status, p.options.App+": sign in")
}

// selectionOf is the selection in the fields of an address or a form.
func selectionOf(q url.Values) Selection {
	return Selection{Function: q.Get("function"), Range: q.Get("range"), Key: q.Get("key"), Error: q.Get("error"), Letter: q.Get("letter"), IDs: strings.FieldsFunc(q.Get("ids"), func(c rune) bool { return c == ',' })}
}

// pairs are the fields of a selection that an address or a form has.
func (s Selection) pairs() (all [][2]string) {
	all = [][2]string{{"function", s.Function}, {"range", s.Range}, {"key", s.Key}, {"error", s.Error}, {"letter", s.Letter}, {"ids", strings.Join(s.IDs, ",")}}
	return slices.DeleteFunc(all, func(pair [2]string) bool { return pair[1] == "" })
}

// Address is a path with the selection as its query.
func (s Selection) Address(path string) string {
	q := url.Values{}
	for _, pair := range s.pairs() {
		q.Set(pair[0], pair[1])
	}
	return path + "?" + q.Encode()
}

func (s Selection) String() string {
	var parts []string
	for _, pair := range s.pairs() {
		if pair[0] == "ids" {
			pair = [2]string{"the viewer:", strconv.Itoa(len(s.IDs))}
		}
		parts = append(parts, strings.Replace(pair[0], "letter", "dead letter", 1)+" "+pair[1])
	}
	return cmp.Or(strings.Join(parts, ", "), "all functions")
}

func (p *Page) showPlain(w http.ResponseWriter, r *http.Request) {
	state, selected := p.state(r.Context()), selectionOf(r.URL.Query())
	status := p.statusFor(r, state)
	h := status.Health
	var m markup
	m.add(`<p id="plain-health">%s</p>`, fmt.Sprintf("As of %s: %s behind, the oldest change is %s old. Problems: %d, paused ranges: %d, dead letters: %s, hosts: %d.", status.Time.Format(time.RFC3339),
		lagText(h.Changes, h.Exact, h.Known), ageText(h.Seconds, h.Known), h.Problems, h.Paused, countText(h.Letters), h.Hosts))
	m.add(`<p><a href="%s">Read again</a> `, selected.Address("plain"))
	if !status.CanAct {
		m.add(`Actions need the token: <a href="sign-in">sign in</a>`)
	}
	m.add(`</p><form method="get" action="plain" class="fields" role="search" aria-label="Filter">`)
	names := []string{""}
	for _, f := range state.Functions {
		names = append(names, f.Name)
	}
	m.choice("Function", "function", selected.Function, names)
	m.choice("State of ranges", "rangeState", query(r, "rangeState"), []string{"", rangeStalled, "paused", "limited", "free", "behind", "caught up"})
	m.add(`<label>Range <input name="range" value="%s"></label> <label>Key or document id <input name="key" value="%s"></label> <label>Error of dead letters <input name="error" value="%s"></label> <button>Filter</button></form>`, selected.Range, selected.Key, selected.Error)
	for _, f := range state.Functions {
		if f.Problem != "" {
			m.add(`<p class="problem">%s: %s</p>`, f.Name, f.Problem)
		}
		if f.Units != "" {
			m.add(`<p>%s costs %s</p>`, f.Name, f.Units)
		}
	}
	for _, g := range p.options.Recorder.listGraphs() {
		var handled, failed, letters int64
		behind := int64(-1) // not known
		for i := range g.Handled {
			handled, failed, letters, behind = handled+g.Handled[i], failed+g.Failed[i], letters+g.Letters[i], max(behind, g.Behind[i])
		}
		m.add(`<p>%s: %s</p>`, g.Function, fmt.Sprintf("in the last hour on this host %d handled, %d failed calls, %d dead letters, at most %s behind", handled, failed, letters, countText(int(behind))))
	}
	plainWhy(&m, state.Why)
	p.plainRanges(&m, r, state, status.CanAct)
	p.plainLetters(&m, r, selected, status.CanAct)
	p.plainRest(&m, r)
	m.write(w, http.StatusOK, p.options.App)
}

// plainWhy says why ranges make no progress, as the command why does.
func plainWhy(m *markup, causes []Cause) {
	if len(causes) == 0 {
		return
	}
	m.table("Why ranges make no progress", "Ranges|Cause|Since|Evidence|Next")
	for _, c := range causes {
		m.row(c.Title, c.Cause, c.Since, c.Evidence, c.Next)
	}
	m.endTable()
	m.add("</section>")
}

func (p *Page) plainRanges(m *markup, r *http.Request, state State, acts bool) {
	q := rangeQueryOf(r, "rangesAfter")
	list := p.rangesFor(state, q)
	m.table("Functions and ranges", "Function|Range|Owner|Behind|Oldest|Continuation|State|Actions")
	for _, l := range list.Items {
		m.add("<tr>")
		m.cells(l.Function, l.Range, cmp.Or(l.Owner, "(free)"), lagText(l.Changes, l.Exact, l.Known), ageText(l.Seconds, l.Known), l.Continuation)
		m.add("<td>%s", rangeState(&l))
		if l.Advice != "" {
			m.add(`<div class="advice">Next: %s</div>`, l.Advice)
		}
		m.add("</td><td>")
		if of := (Selection{Function: l.Function, Range: l.Range}); acts {
			m.add(`<a href="%s" aria-label="Act on %s">Act</a>`, of.Address("plain-act"), of.String())
		}
		m.add("</td></tr>\n")
	}
	m.endTable()
	m.add("<p>%s</p>", fmt.Sprintf("%d of %d ranges", len(list.Items), list.Total))
	if list.Next != "" {
		m.add(`<p><a href="%s&amp;rangeState=%s&amp;rangesAfter=%s">Further ranges</a></p>`, selectionOf(r.URL.Query()).Address("plain"), url.QueryEscape(q.State), list.Next)
	}
	m.add("</section>")
}

// rangeState is the state of a range with its reason.
func rangeState(r *Range) string {
	switch {
	case r.Problem == "":
		return r.State()
	case r.Paused:
		return r.Problem
	}
	return r.State() + ": " + r.Problem
}

func (p *Page) plainLetters(m *markup, r *http.Request, selected Selection, acts bool) {
	list := p.letterList(r.Context(), letterQueryOf(r))
	m.table("Dead letters", "Given up|Document|Key|Function|Range|Attempts|Error")
	for _, l := range list.Items {
		m.add(`<tr><td>%s</td><td><a href="%s">%s</a></td>`, l.Time.UTC().Format(time.RFC3339), Selection{Letter: l.ID}.Address("plain-letter"), l.DocumentID)
		m.cells(l.Key, l.Function, l.Range, attemptsText(l), l.Error)
		m.add("</tr>\n")
	}
	m.endTable()
	if list.Problem != "" {
		m.add(`<p class="problem">%s</p>`, list.Problem)
	}
	if list.err != nil {
		m.add(`<p class="problem">%s</p>`, list.err.Error())
	}
	m.add("<p>%s</p>", searchText(list))
	if acts && len(list.Items) > 0 && selected.Function != "" {
		m.add(`<p><a href="%s&amp;letters=all">Act on all of these</a></p>`, selected.Address("plain-act"))
	}
	if list.Next != "" {
		m.add(`<p><a href="%s&amp;after=%s">Older ones</a></p>`, selected.Address("plain"), list.Next)
	}
	m.add("</section>")
}

// searchText says how far the stores were searched.
func searchText(l letterList) string {
	text := fmt.Sprintf("%d of %d searched", l.Searched, l.Total+l.Postponed)
	if l.Stopped {
		text += ", then stopped at a bound: the older ones continue the search"
	}
	return text
}

// plainRest shows failed calls or changes, the timeline and the settings.
func (p *Page) plainRest(m *markup, r *http.Request) {
	m.table("Changes", "State|Document|Key|Function|Range|Attempt|Arrived|Error")
	for _, c := range p.options.Recorder.list(filterOf(r), "", defaultLimit).Items {
		m.row(string(c.State), c.DocumentID, c.Key, c.Function, c.Range, strconv.Itoa(c.Attempt), c.Arrived.UTC().Format(time.RFC3339), c.Error)
	}
	m.endTable()
	m.add("</section>")
	m.table("Timeline", "Time|Kind|Function|Range|Text")
	for _, t := range slices.Backward(p.options.Recorder.timeline(0)) {
		m.row(t.Time.UTC().Format(time.RFC3339), t.Kind, t.Function, t.Range, t.Text)
	}
	m.endTable()
	m.add("</section>")
	m.table("Settings", "Name|Value|Source")
	for _, s := range p.options.Source.Settings {
		m.row(s.Name, s.Value, s.Source)
	}
	m.endTable()
	m.add("</section>")
}

func (p *Page) showLetter(w http.ResponseWriter, r *http.Request) {
	d, err := p.options.Source.FindDeadLetter(r.Context(), r.URL.Query().Get("letter"))
	if err != nil {
		showProblem(w, http.StatusNotFound, failure{"letter", err.Error(), "it was delivered again or discarded"})
		return
	}
	detail := p.detailOf(d)
	var m markup
	m.table("Dead letter", "Field|Value")
	for _, pair := range [][2]string{
		{"Function", d.Function}, {"Range", d.Range}, {"LSN", strconv.FormatInt(d.LSN, 10)}, {"Key", d.Key}, {"Operation", string(d.Operation)},
		{"Given up", d.Time.UTC().Format(time.RFC3339)}, {"Attempts", attemptsText(detail.letterRow)}, {"Error", detail.Text},
	} {
		m.row(pair[0], pair[1])
	}
	m.endTable()
	if p.hasToken(r) {
		m.add(`<p><a href="%s&amp;letters=one">Act on this dead letter</a></p>`, Selection{Function: d.Function, Letter: d.ID}.Address("plain-act"))
	}
	if detail.Hidden {
		m.add("<p>Documents are hidden on this page.</p>")
	} else {
		m.add(`<h2>Document</h2><pre>%s</pre><p><a href="api/v1/letters/%s/document">Download</a></p>`, detail.Document, url.PathEscape(d.ID))
	}
	if detail.Stack != "" {
		m.add("<h2>Stack</h2><pre>%s</pre>", detail.Stack)
	}
	m.add(`<p><a href="plain">Back</a></p></section>`)
	m.write(w, http.StatusOK, d.DocumentID)
}

// showActions asks which action to plan.
func (p *Page) showActions(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	selected := selectionOf(q)
	var m markup
	m.add(`<section><p>Of %s:</p><form method="post" action="plain-plan" class="fields">`, selected.String())
	for _, pair := range selected.pairs() {
		m.add(`<input type="hidden" name="%s" value="%s">`, pair[0], pair[1])
	}
	if q.Has("letters") {
		m.choice("Action", "action", "", []string{"replay", "discard"})
	} else {
		m.choice("Action", "action", "", []string{"pause", "resume", "release", "seek"})
		m.add(`<label>Reason, for pause <input name="reason"></label>
<label>Position, for seek: beginning, now, a time such as 2026-01-31T09:00:00Z, or a token <input name="to"></label>
<label class="check"><input type="checkbox" name="force" value="yes"> do not wait for the owner's calls, for release and seek</label>`)
	}
	m.add(`<button class="primary">Plan</button></form><p><a href="plain">Back</a></p></section>`)
	m.write(w, http.StatusOK, "Plan an action")
}

// formOf reads the fields of a form.
func formOf(w http.ResponseWriter, r *http.Request) url.Values {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	if err != nil {
		return nil
	}
	fields, _ := url.ParseQuery(string(text)) // those that can be read
	return fields
}

func (p *Page) showPlan(w http.ResponseWriter, r *http.Request) {
	q := formOf(w, r)
	request := Request{Action: q.Get("action"), Select: selectionOf(q), Args: Arguments{
		Reason: q.Get("reason"), To: strings.TrimSpace(q.Get("to")), Force: q.Has("force"),
	}}
	id, kept, status, refused := p.makePlan(r, request)
	if refused != nil {
		showProblem(w, status, *refused)
		return
	}
	p.writePlan(w, http.StatusOK, id, kept, "")
}

func (p *Page) writePlan(w http.ResponseWriter, status int, id string, kept waitingPlan, problem string) {
	var m markup
	m.add(`<section><p class="problem" role="alert">%s</p><ul id="effects">`, problem)
	for _, text := range kept.plan.Effects {
		m.add("<li>%s</li>", text)
	}
	for _, text := range kept.plan.Warnings {
		m.add(`<li class="warning">Note: %s</li>`, text)
	}
	m.add("</ul>")
	if kept.plan.Export != "" {
		m.add(`<p><a href="%s">Download a copy first</a></p>`, kept.plan.Export)
	}
	m.add(`<form method="post" action="plain-do" class="fields"><input type="hidden" name="plan" value="%s">`, id)
	if kept.plan.Confirm != "" {
		m.add(`<label>Type %s to confirm <input name="confirm" required autocomplete="off"></label>`, kept.plan.Confirm)
	}
	m.add(`<button class="primary">Do it: %s</button></form><p><a href="plain">Cancel</a></p></section>`, kept.request.Action)
	m.write(w, status, "Plan: "+kept.request.Action+" "+kept.request.Select.String())
}

func (p *Page) showResult(w http.ResponseWriter, r *http.Request) {
	q := formOf(w, r)
	operation, kept, refused := p.carryOut(r, q.Get("plan"), strings.TrimSpace(q.Get("confirm")))
	switch {
	case refused != nil && refused.Code == wrongConfirmation:
		p.writePlan(w, http.StatusConflict, q.Get("plan"), kept, refused.Message)
		return
	case refused != nil:
		showProblem(w, http.StatusConflict, *refused)
		return
	}
	w.Header().Set("Location", "plain-operation?id="+operation)
	w.WriteHeader(http.StatusSeeOther)
}

func (p *Page) showOperation(w http.ResponseWriter, r *http.Request) {
	o, ok := p.plans.find(r.URL.Query().Get("id"))
	if !ok {
		showProblem(w, http.StatusNotFound, failure{"operation", "there is no such operation", ""})
		return
	}
	var m markup
	if o.State == "running" {
		m.add(`<meta http-equiv="refresh" content="1">`) // the page has no input
	}
	m.add(`<section><p id="result" role="status">%s</p><p><a href="plain">Back</a></p></section>`, strings.TrimSuffix(o.State+": "+o.Text, ": "))
	m.write(w, http.StatusOK, "Result")
}

func showProblem(w http.ResponseWriter, status int, f failure) {
	var m markup
	m.add(`<section><p class="problem" id="problem" role="alert">%s</p><p>%s</p><p><a href="plain">Back</a></p></section>`, f.Message, f.Next)
	m.write(w, status, "Nothing was done")
}

func lagText(changes int64, exact, known bool) string {
	switch {
	case !known:
		return "?"
	case exact:
		return strconv.FormatInt(changes, 10)
	}
	return "~" + strconv.FormatInt(changes, 10)
}

// countText is a number that may not be known yet.
func countText(n int) string {
	if n < 0 {
		return "?"
	}
	return strconv.Itoa(n)
}

func ageText(seconds float64, known bool) string {
	if !known {
		return "?"
	}
	return fmt.Sprintf("%.0f s", seconds)
}

func attemptsText(l letterRow) string {
	switch {
	case !l.Due.IsZero():
		return "postponed until " + l.Due.UTC().Format(time.RFC3339)
	case l.Blocked:
		return "blocked"
	}
	return strconv.Itoa(l.Attempts)
}
