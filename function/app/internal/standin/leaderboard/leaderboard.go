// Package leaderboard stands in for the demo's handler of that name in tests of package app,
// whose module requires no client of a sink: it keeps the best scores in memory. A test of
// package function compares the settings of both.
package leaderboard

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/handlers"
	"halley/handlers/game"
	"halley/trigger"
)

// Settings of the handler.
type Settings struct {
	RedisURL  handlers.URL `split_words:"true" desc:"Redis that holds the boards, redis:// or rediss:// (TLS); required"`
	KeyPrefix string       `split_words:"true" default:"leaderboard:" desc:"begins the Redis key of every board; the game's name follows"`
	Result    game.Paths   `default:"game=/game, player=/player, score=/score" desc:"properties of a result, such as game=/title, player=/user/name, score=/points; those that are left out stay as they are"`
}

// Server holds boards in memory. It is safe for concurrent use.
type Server struct {
	addr     string
	commands atomic.Int64

	mu     sync.Mutex
	scores map[string]map[string]float64 // best score by key and player
}

// servers holds each running *Server by its address.
var (
	servers sync.Map
	started atomic.Int64
)

// Run starts a server at an address of its own.
func Run() *Server {
	s := &Server{addr: fmt.Sprintf("board-%d:6379", started.Add(1)), scores: map[string]map[string]float64{}}
	servers.Store(s.addr, s)
	return s
}

// RunT starts a server that ends with the test.
func RunT(t testing.TB) *Server {
	s := Run()
	t.Cleanup(s.Close)
	return s
}

// Close ends the server: handlers fail from now on.
func (s *Server) Close() { servers.Delete(s.addr) }

// Addr is the host of the server's URL.
func (s *Server) Addr() string { return s.addr }

// CommandCount is the number of recorded results.
func (s *Server) CommandCount() int { return int(s.commands.Load()) }

// Players is the number of players on a board.
func (s *Server) Players(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.scores[key])
}

func (s *Server) record(prefix string, r game.Result) {
	s.commands.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	board := s.scores[prefix+r.Game]
	if board == nil {
		board = map[string]float64{}
		s.scores[prefix+r.Game] = board
	}
	if best, known := board[r.Player]; !known || r.Score > best {
		board[r.Player] = r.Score
	}
}

// Open returns the handler. It does not connect.
func Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	target, err := url.Parse(s.RedisURL.Reveal())
	if err != nil || target.Scheme != "redis" || target.Host == "" {
		return nil, nil, fmt.Errorf("setting %sREDIS_URL is not a Redis URL", env.Prefix)
	}
	connect := func() (*Server, error) {
		if server, ok := servers.Load(target.Host); ok {
			return server.(*Server), nil
		}
		return nil, errors.New("connection refused")
	}
	env.OfferProbe(handlers.Probe{What: "Redis at " + target.Host, Try: func(context.Context) error {
		if _, err := connect(); err != nil {
			return fmt.Errorf("%w: start it, or correct %sREDIS_URL", err, env.Prefix)
		}
		return nil
	}})
	meter := env.Meter("redis")
	return trigger.Documents(func(_ context.Context, results []game.Result) error {
		began := time.Now()
		server, err := connect()
		meter.Ended(began, err)
		if err != nil {
			return fmt.Errorf("record %d results in Redis: %w", len(results), err)
		}
		for _, r := range results {
			server.record(s.KeyPrefix, r)
		}
		meter.Wrote(len(results))
		return nil
	}), nil, nil
}
