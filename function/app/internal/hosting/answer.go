package hosting

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"halley/function/app/internal/text"
)

// Problem is the body of an answer with another status than 2xx.
type Problem struct {
	Error string `json:"error"`
}

// Answer writes body as JSON with its content type. If the type were missing, Go
// would detect text, which the host treats as a failure.
func Answer(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":"the answer is not JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	data = text.EscapeControls(data)
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

// RequestTimeout is the time until a whole request must have arrived.
const RequestTimeout = 10 * time.Second
