package archive

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger/triggertest"
)

// Attempts of Azure's client count as retries, and a blob that exists as no rows.
func TestRequestsToTheAccountAreMeasured(t *testing.T) {
	puts, exists := 0, false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		puts++
		switch {
		case puts <= 2:
			w.Header().Set("Retry-After-Ms", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		case exists:
			w.Header().Set("X-Ms-Error-Code", "BlobAlreadyExists")
			w.WriteHeader(http.StatusConflict)
		default:
			exists = true
			w.WriteHeader(http.StatusCreated)
		}
	}))
	defer server.Close()
	setAll(t, map[string]string{
		"HALLEY_ARCHIVE_CONNECTION_STRING": "AccountName=vault;AccountKey=c2VjcmV0;BlobEndpoint=" + server.URL + "/", "HALLEY_ARCHIVE_BLOB_CONTAINER": "archive",
	})
	var sinks handlerstest.Sinks
	handle := handlerstest.Under(t, handlers.New("archive", "", Open), handlers.Env{Measure: sinks.Measure})
	for range 2 {
		if v := triggertest.Deliver(t, handle, triggertest.Upsert(`{"id":"1"}`, "a"), triggertest.Upsert(`{"id":"2"}`, "a")); len(v.Failed) > 0 {
			t.Fatal(v)
		}
	}
	if total := sinks.Of("blob"); total != (handlerstest.SinkTotal{OK: 2, Rows: 2, Retries: 2}) || puts != 4 {
		t.Errorf("measured %+v of %d requests", total, puts)
	}
}

// An attempt that gets no answer is repeated, so that it does not take the time of the call.
func TestAttemptsAreBounded(t *testing.T) {
	var puts atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices the end of the connection
		if puts.Add(1) == 1 {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	store, err := Settings{
		ConnectionString: handlers.Secret("AccountName=vault;AccountKey=c2VjcmV0;BlobEndpoint=" + server.URL + "/"), BlobContainer: "archive",
		RequestTimeout: handlers.Interval(300 * time.Millisecond), // enough for the second attempt on a busy machine,
	}.store()
	if err != nil {
		t.Fatal(err)
	}
	if existed, err := store.Create(t.Context(), "x", []byte("x"), "text/plain"); existed || err != nil || puts.Load() != 2 {
		t.Errorf("%v, %v after %d attempts", existed, err, puts.Load())
	}
}

// A storage account that answers an error without an end takes no memory of a host.
func TestErrorsOfTheAccountAreReadInPart(t *testing.T) {
	sent := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		for chunk := make([]byte, 1<<20); sent < 128<<20; sent += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	store, err := Settings{ConnectionString: handlers.Secret("AccountName=vault;AccountKey=c2VjcmV0;BlobEndpoint=" + server.URL + "/"), BlobContainer: "archive"}.store()
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Read(t.Context(), "x")
	server.Close()
	if err == nil || sent > 64<<20 {
		t.Errorf("%v after %d MB", err, sent>>20)
	}
}
