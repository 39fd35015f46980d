package crash

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"halley/handlers/game"
	"halley/tests/history"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/emulator/epk"
)

// Each player writes its results one after the other. Every fifth replaces the
// document of the previous one.
const (
	players = 16
	pause   = 4 * poll // between two results of a player
)

// load writes until stop is called. stop waits for the last answer.
func (c *cell) load() (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var writers sync.WaitGroup
	for i := range players {
		writers.Go(func() {
			w := c.writer(fmt.Sprintf("player-%d", i))
			for seq := int64(1); ctx.Err() == nil; seq++ {
				w.write(ctx, seq)
				select {
				case <-after(pause):
				case <-ctx.Done():
				}
			}
		})
	}
	return func() { cancel(); writers.Wait() }
}

// writer writes the results of one player and records the LSN of each.
type writer struct {
	cell      *cell
	player    string
	hash      string
	container *cosmos.Container
	heard     *hearing
}

// hearing is a transport to the account that keeps the LSN of the last answer.
type hearing struct {
	account *emulator.Account
	lsn     int64
}

func (h *hearing) Do(r *http.Request) (*http.Response, error) {
	resp, err := h.account.Do(r)
	if err == nil {
		h.lsn, _ = strconv.ParseInt(resp.Header.Get("Lsn"), 10, 64)
	}
	return resp, err
}

func (c *cell) writer(player string) *writer {
	heard := &hearing{account: c.account}
	definition := epk.Definition{Kind: epk.Hash, Version: 2}
	return &writer{
		cell: c, player: player, heard: heard, hash: definition.Hash(epk.Key{epk.String(player)}),
		container: connect(c.t, heard).Container(database, c.monitored),
	}
}

func (w *writer) write(ctx context.Context, seq int64) {
	id := seq
	if seq%5 == 0 {
		id = seq - 1
	}
	result := game.Result{ID: fmt.Sprintf("%s-%d", w.player, id), Player: w.player, Game: "chess", Score: float64(seq)}
	// Even if ctx ends, a write is finished, so that the history has every written
	// change.
	if _, err := w.container.Upsert(context.WithoutCancel(ctx), cosmos.NewPartitionKey(w.player), result); err != nil {
		w.cell.t.Errorf("write: %v", err)
		return
	}
	w.cell.record(history.Event{Kind: history.Write, Key: w.player, Seq: seq, ID: result.ID, LSN: w.heard.lsn, Hash: w.hash})
}
