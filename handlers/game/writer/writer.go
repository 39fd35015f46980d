// Package writer is the load of development runs: it posts game results at a steady rate.
package writer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"halley/handlers/game"
	"halley/trigger/cosmos"
)

const (
	// Players is the number of players.
	Players = 40

	writeLanes = 8                // concurrent writes
	writeTime  = 10 * time.Second // deadline of one write
	recent     = 50               // results of a lane that are candidates for correction
)

// Games are the names of the games.
var Games = []string{"chess", "go", "mahjong", "shogi"}

// PlayerName names one of the players, 0 to Players-1.
func PlayerName(i int) string { return fmt.Sprintf("player-%02d", i) }

// result is a document of the writer: a game's result that counts its versions.
type result struct {
	game.Result
	Version int `json:"version"`
}

// Writer posts game results at a steady rate and corrects one in ten.
type Writer struct {
	Containers []*cosmos.Container // each gets every result; their partition key is /player
	Rate       int                 // writes per second
	Prefix     string              // of every id, unique to this run

	// Wrote and Failed are told of each write that was acknowledged or not. Any number of
	// goroutines call them.
	Wrote  func(id string, version int)
	Failed func(error)
}

// Run writes until ctx ends and all pending writes are answered.
func (w *Writer) Run(ctx context.Context) {
	var lanes sync.WaitGroup
	for i := range min(writeLanes, w.Rate) {
		lanes.Go(func() { w.lane(ctx, i, min(writeLanes, w.Rate)) })
	}
	lanes.Wait()
}

// lane writes its share, one at a time, so that writes of one document never overlap.
func (w *Writer) lane(ctx context.Context, lane, lanes int) {
	began := time.Now()
	interval := time.Duration(lanes) * time.Second / time.Duration(w.Rate)
	random := rand.New(rand.NewPCG(uint64(lane), uint64(lanes)))
	var written []result
	for n := 0; ; n++ {
		due := began.Add(time.Duration(n)*interval + time.Duration(lane)*interval/time.Duration(lanes))
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(due)):
		}
		r, corrected := next(random, written, fmt.Sprintf("%s-%d-%d", w.Prefix, lane, n))
		ok := w.write(ctx, r)
		switch {
		case ok && corrected >= 0:
			written[corrected] = r
		case ok:
			written = append(written[max(0, len(written)+1-recent):], r)
		case corrected >= 0:
			written = slices.Delete(written, corrected, corrected+1) // its version is unknown now
		}
	}
}

// next returns a new result, or a correction of one that was written.
func next(random *rand.Rand, written []result, id string) (r result, corrected int) {
	if len(written) > 0 && random.IntN(10) == 0 {
		i := random.IntN(len(written))
		r := written[i]
		r.Version++
		r.Score++
		return r, i
	}
	return result{Version: 1, Result: game.Result{
		ID:     id,
		Game:   Games[random.IntN(len(Games))],
		Player: PlayerName(random.IntN(Players)),
		Score:  float64(random.IntN(100_000)),
	}}, -1
}

// write reports whether the write was acknowledged. It does not end with ctx: if a
// write were cut off, its outcome would be unknown.
func (w *Writer) write(ctx context.Context, r result) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	for _, container := range w.Containers {
		if _, err := container.Upsert(ctx, cosmos.NewPartitionKey(r.Player), r); err != nil {
			w.Failed(err)
			return false
		}
	}
	w.Wrote(r.ID, r.Version)
	return true
}
