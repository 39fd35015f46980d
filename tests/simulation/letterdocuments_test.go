package simulation

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/deadletter"
)

// letterContainer is where the hosts of some runs keep their dead letters, as documents. The
// world has a copy of these in its letters.
const letterContainer = "letters"

// createLetterContainer creates the container of a run whose dead letters are documents.
func (w *world) createLetterContainer() {
	w.must(w.admin.CreateContainer(context.Background(), database, cosmos.ContainerDefinition{
		ID: letterContainer, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{w.swarm.letterKey}},
	}))
}

// deadLetters returns the dead letter store of a process with its client.
func (w *world) deadLetters(p *process, client *cosmos.Client) trigger.DeadLetters {
	if w.swarm.letterKey == "" {
		return &store{p}
	}
	c, err := deadletter.NewContainer(client.Container(database, letterContainer), &deadletter.ContainerOptions{Window: w.swarm.letterWindow})
	w.must(err)
	return smallPages{c}
}

// smallPages is a store whose lists of few records have many pages.
type smallPages struct{ trigger.DeadLetters }

func (s smallPages) Query(ctx context.Context, q trigger.DeadLetterQuery) (trigger.DeadLetterPage, error) {
	q.Limit = 3
	return s.DeadLetters.Query(ctx, q)
}

// classifyLetter returns the kind of a request for dead letters that are documents.
func (w *world) classifyLetter(r *request, req *http.Request, last string) {
	r.resource = last
	switch req.Method {
	case http.MethodDelete:
		r.kind = deadLetterDelete
	case http.MethodGet:
		r.kind = readLetter
	default:
		if r.kind = deadLetterPut; strings.Contains(req.Header.Get("Content-Type"), "query+json") {
			r.kind, r.resource = readLetter, string(r.body)+req.Header.Get("X-Ms-Continuation")
			return
		}
		r.resource = letterOf(r.body).DocumentID
	}
}

// listLetters returns all dead letters of the store.
func (w *world) listLetters(s trigger.DeadLetters, of trigger.DeadLetterSource) (letters []trigger.DeadLetter) {
	for _, k := range []trigger.RecordKind{trigger.RecordDead, trigger.RecordPostponed} {
		for d, err := range trigger.AllDeadLetters(context.Background(), s, trigger.DeadLetterQuery{Source: of, Kind: k}) {
			w.must(err)
			letters = append(letters, d)
		}
	}
	return letters
}

// letterDocument is the document of a dead letter.
type letterDocument struct {
	trigger.DeadLetter
	DocumentID  string             `json:"id"`
	Record      trigger.RecordKind `json:"record"`
	Letter      string             `json:"letter"`
	Text        string             `json:"document"`
	Epoch       int64              `json:"epoch,string"`
	LSN         int64              `json:"lsn,string"`
	Order       int64              `json:"order,string"`
	Previous    any                `json:"previous"`
	DocumentKey any                `json:"documentKey"`
	MonitoredID string             `json:"documentId"`
}

func letterOf(body []byte) (d letterDocument) {
	_ = json.Unmarshal(body, &d) // the account refuses what is no document
	return d
}

func (d letterDocument) letter() trigger.DeadLetter {
	l := d.DeadLetter
	l.Kind, l.ID, l.Document, l.DocumentID = d.Record, d.Letter, json.RawMessage(d.Text), d.MonitoredID
	l.Epoch, l.LSN, l.Order = d.Epoch, d.LSN, d.Order
	return l
}

// observeLetter records the effect of a request on the documents of dead letters.
func (w *world) observeLetter(r *request) {
	switch r.kind {
	case deadLetterPut:
		doc := letterOf(r.body)
		w.mu.Lock()
		w.letterIDs[doc.DocumentID] = doc.Letter
		w.mu.Unlock()
		w.storeLetter(doc.letter())
		w.used("letters as documents", 1)
	case deadLetterDelete:
		w.deleteLetter(w.letterIDs[r.resource])
	}
}
