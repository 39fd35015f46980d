package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"

	"halley/handlers/loopback"
)

// function is a function behind HTTP that keeps the last version of each document. One
// in any other language has the same contract.
type function struct {
	mu        sync.Mutex
	versions  versions
	positions map[string]position
	calls     int
}

// startRemote starts a function behind HTTP.
func startRemote(s *stage) (*part, error) {
	server, err := loopback.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &function{versions: versions{}, positions: map[string]position{}}
	server.Serve(f)
	s.onClose(server.Close)
	return &part{
		settings: map[string]string{"HALLEY_REMOTE_URL": server.Origin() + "/changes"},
		read: func(context.Context) (versions, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return maps.Clone(f.versions), nil
		},
		compare: func(_ context.Context, written []document) (string, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return fmt.Sprintf("the function behind HTTP had %d calls and has the last version of all %d documents", f.calls, len(written)), f.versions.equal(written)
		},
	}, nil
}

func (f *function) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Call, Epoch int64
		Changes     []struct {
			ID, Operation string
			LSN           int64
			Document      struct{ Version int }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	for _, c := range request.Changes {
		if last := f.positions[c.ID]; request.Epoch < last.epoch || request.Epoch == last.epoch && c.LSN < last.lsn {
			continue // a former owner's
		}
		f.positions[c.ID] = position{request.Epoch, c.LSN}
		f.versions[c.ID] = c.Document.Version
		if c.Operation == "delete" || c.Operation == "expire" {
			delete(f.versions, c.ID)
		}
	}
	w.WriteHeader(http.StatusNoContent)
}
