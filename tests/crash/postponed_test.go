package crash

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"halley/tests/history"
	"halley/tests/long"
	"halley/trigger/cosmos"
)

const (
	postponedKills = 15 // in the short form 3
	postponedEvery = 3  // changes of a key
	handledPerKill = 20 // at least, so that hosts get on between the kills
)

// TestPostponedChangesSurviveKills kills hosts with SIGKILL while the store has changes
// that their handler has postponed. In the end the store is empty, the newest version of
// each document was handled, and no change was handled for the first time after a later
// one of its key.
func TestPostponedChangesSurviveKills(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some time")
	}
	t.Parallel()
	dir, binary, account := newAccount(t)
	c := newCell(t, account, "postponed", dir, 3)
	c.flags = []string{"-postpone", fmt.Sprint(postponedEvery)}
	dice := rand.New(rand.NewPCG(1, 2))

	stopLoad := c.load()
	defer stopLoad()
	var alive []*life
	for range hosts {
		alive = append(alive, c.start(binary))
	}
	defer func() {
		for _, l := range alive {
			l.close()
		}
		c.late.Wait()
		_ = c.file.Close()
	}()
	most, kills := 0, postponedKills
	if !long.Wanted() {
		kills = 3
	}
	for kill := range kills {
		most = max(most, c.awaitPostponed(func(n int) bool {
			handled, _ := c.progress()
			return n > 0 && handled >= kill*handledPerKill
		}))
		i := dice.IntN(len(alive))
		alive[i].kill()
		alive[i].close()
		alive[i] = c.start(binary)
	}
	stopLoad()
	c.awaitPostponed(func(n int) bool {
		_, missing := c.progress()
		return n == 0 && missing == 0
	})
	events, err := c.events()
	must(t, err)
	first, newest, again := map[string]bool{}, map[string]int64{}, 0
	for _, e := range events {
		name := fmt.Sprint(e.Key, "/", e.Seq)
		switch {
		case e.Kind != history.Delivery:
		case first[name]:
			again++
		case e.Seq < newest[e.Key]:
			t.Errorf("%s was handled for the first time after %d", name, newest[e.Key])
		default:
			first[name], newest[e.Key] = true, e.Seq
		}
	}
	t.Logf("%d kills, up to %d postponed changes at a kill, %d changes handled, %d of them again", kills, most, len(first)+again, again)
}

// awaitPostponed returns the number of postponed changes in the store when it suffices.
func (c *cell) awaitPostponed(suffices func(n int) bool) int {
	container := connect(c.t, c.account).Container(database, c.leases)
	deadline := after(settling)
	for {
		n := 0
		for page, err := range container.Query(c.t.Context(), cosmos.Query{Text: "SELECT c.id FROM c WHERE IS_DEFINED(c.due)"}) {
			must(c.t, err)
			n += len(page.Items)
		}
		if suffices(n) {
			return n
		}
		select {
		case <-deadline:
			handled, missing := c.progress()
			c.t.Fatalf("the store has %d postponed changes; %d changes were handled, %d documents not", n, handled, missing)
		case <-after(20 * time.Millisecond):
		}
	}
}

// progress counts the changes that were handled, and the documents whose newest version
// was not.
func (c *cell) progress() (deliveries, missing int) {
	events, err := c.events()
	must(c.t, err)
	written, handled := map[string]int64{}, map[string]int64{}
	for _, e := range events {
		switch e.Kind {
		case history.Write:
			written[e.ID] = max(written[e.ID], e.Seq)
		case history.Delivery:
			deliveries++
			handled[e.ID] = max(handled[e.ID], e.Seq)
		}
	}
	for id, seq := range written {
		if handled[id] < seq {
			missing++
		}
	}
	return deliveries, missing
}
