package page

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
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

// answerTagged answers with an entity tag, and without the value if the viewer has it.
func answerTagged(w http.ResponseWriter, r *http.Request, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		refuse(w, http.StatusInternalServerError, failure{"encoding", err.Error(), ""})
		return
	}
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the viewer may have gone
}

// items is the answer of a list.
type items[T any] struct {
	Items   []T    `json:"items"`
	Total   int    `json:"total"`
	Next    string `json:"next,omitempty"`
	Problem string `json:"problem,omitempty"`

	// In a list of dead letters, Total and Postponed are the records that the stores have to
	// search, Searched those that they have read, and Stopped says that they have not yet
	// found as many as the page holds.
	Postponed int  `json:"postponed,omitempty"`
	Searched  int  `json:"searched,omitempty"`
	Stopped   bool `json:"stopped,omitempty"`
}
