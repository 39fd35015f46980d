package bleve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/handlers"
	"halley/trigger"
)

// handler is an index with the server of its queries.
type handler struct {
	index   *Index
	address string // of the server; "" is none
	log     *zap.Logger

	starting chan struct{} // held while the server starts
	server   *http.Server  // guarded by starting; nil before the first batch
	serving  sync.WaitGroup
}

// handle indexes a batch. The server starts with the first one: a command that opens the
// handler and delivers nothing must not take the address of a host.
func (h *handler) handle(ctx context.Context, b trigger.Batch) error {
	if h.address != "" {
		if err := h.start(ctx); err != nil {
			return err
		}
	}
	return h.index.Handle(ctx, b)
}

func (h *handler) start(ctx context.Context) error {
	select {
	case h.starting <- struct{}{}:
		defer func() { <-h.starting }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if h.server != nil {
		return nil
	}
	listener, err := net.Listen("tcp", h.address)
	if err != nil {
		return fmt.Errorf("serve queries: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /search", h.query)
	h.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	h.log.Info("queries are served", zap.String("url", "http://"+listener.Addr().String()+"/search?q=TEXT"))
	h.serving.Go(func() {
		if err := h.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			h.log.Error("queries are not served any more", zap.Error(err))
		}
	})
	return nil
}

// most hits of one answer.
const mostHits = 1000

// query answers GET /search?q=TEXT&limit=N with a JSON array of hits.
func (h *handler) query(w http.ResponseWriter, r *http.Request) {
	if !handlers.IsLoopback(r.Host) {
		http.Error(w, "a web page may not ask under another name", http.StatusForbidden)
		return
	}
	limit := 10
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostHits {
			http.Error(w, fmt.Sprintf("limit must be 1 to %d", mostHits), http.StatusBadRequest)
			return
		}
		limit = n
	}
	hits, err := h.index.Search(r.Context(), r.URL.Query().Get("q"), limit)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(hits); err != nil {
		h.log.Debug("answer to a query was not sent", zap.Error(err))
	}
}

// close ends the server, then closes the index.
func (h *handler) close() error {
	var err error
	h.starting <- struct{}{}
	if h.server != nil {
		err = h.server.Close()
	}
	h.serving.Wait()
	return errors.Join(err, h.index.Close())
}
