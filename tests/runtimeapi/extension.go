package runtimeapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
)

const (
	headerExtensionName = "Lambda-Extension-Name"
	headerExtensionID   = "Lambda-Extension-Identifier"
	maxExtensions       = 10
)

// extension is an internal extension: the runtime's process has registered it, as
// aws-lambda-go does to get SIGTERM.
type extension struct {
	name   string
	events []string
	queue  chan extensionEvent
}

type extensionEvent struct {
	EventType          string `json:"eventType"`
	RequestID          string `json:"requestId"`
	DeadlineMs         int64  `json:"deadlineMs"`
	InvokedFunctionArn string `json:"invokedFunctionArn"`
}

// send queues an event if the extension has registered for it. If the queue is
// full, the event is dropped.
func (e *extension) send(event extensionEvent) {
	if !slices.Contains(e.events, event.EventType) {
		return
	}
	select {
	case e.queue <- event:
	default:
	}
}

func (a *api) extension(w http.ResponseWriter, r *http.Request) {
	switch verb := strings.TrimPrefix(r.URL.Path, "/2020-01-01/extension/"); verb {
	case "register":
		a.register(w, r)
	case "event/next":
		a.extensionNext(w, r)
	case "init/error", "exit/error":
		if a.registered(w, r) != nil {
			accept(w)
		}
	default:
		refuse(w, http.StatusNotFound, "NotFound", r.URL.Path)
	}
}

// register follows the Extensions API: an internal extension may register for
// INVOKE or for no event, never for SHUTDOWN.
func (a *api) register(w http.ResponseWriter, r *http.Request) {
	e := &extension{name: r.Header.Get(headerExtensionName), queue: make(chan extensionEvent, 16)}
	var body struct{ Events []string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || e.name == "" {
		refuse(w, http.StatusBadRequest, "InvalidExtensionRegistration", fmt.Sprintf("name %q: %v", e.name, err))
		return
	}
	e.events = body.Events
	if slices.Contains(e.events, "SHUTDOWN") {
		refuse(w, http.StatusForbidden, "ShutdownEventNotSupportedForInternalExtension", e.name)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.extensions) >= maxExtensions {
		refuse(w, http.StatusForbidden, "TooManyExtensions", fmt.Sprintf("at most %d", maxExtensions))
		return
	}
	id := uuid.NewString()
	a.extensions[id] = e
	w.Header().Set(headerExtensionID, id)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"functionName": functionName, "functionVersion": "$LATEST", "handler": "bootstrap"})
}

func (a *api) registered(w http.ResponseWriter, r *http.Request) *extension {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.extensions[r.Header.Get(headerExtensionID)]
	if e == nil {
		refuse(w, http.StatusForbidden, "Extension.UnknownExtensionIdentifier", r.Header.Get(headerExtensionID))
	}
	return e
}

func (a *api) extensionNext(w http.ResponseWriter, r *http.Request) {
	e := a.registered(w, r)
	if e == nil {
		return
	}
	select {
	case event := <-e.queue:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(event)
	case <-r.Context().Done():
	}
}

func (a *api) hasExtensions() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.extensions) > 0
}
