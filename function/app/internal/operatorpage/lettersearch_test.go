package operatorpage

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/page"
	"halley/function/app/internal/settings"
	"halley/trigger"
)

// listedStore answers queries from memory.
type listedStore struct {
	trigger.DeadLetters
	records []trigger.DeadLetter
}

func (s listedStore) Query(_ context.Context, q trigger.DeadLetterQuery) (trigger.DeadLetterPage, error) {
	return trigger.SelectDeadLetters(slices.Values(s.records), q)
}

// endlessStore reads many records for each page and finds none.
type endlessStore struct{ trigger.DeadLetters }

func (endlessStore) Query(_ context.Context, q trigger.DeadLetterQuery) (trigger.DeadLetterPage, error) {
	if !q.NewestFirst || q.Key == "" {
		return trigger.DeadLetterPage{}, nil
	}
	return trigger.DeadLetterPage{Searched: 30_000, StoppedAtBound: true, Cursor: q.Cursor + "x"}, nil
}

// letterAnswer is what the page's API says about dead letters.
type letterAnswer struct {
	Items    []struct{ ID string }
	Total    int
	Cut      bool
	Searched *int
}

// A filter of the page finds dead letters that are older than those that the page lists, and
// the answer says how many records were read for it and whether the search has stopped.
func TestFilterOfThePageSearchesTheStore(t *testing.T) {
	apptest.CleanEnv(t, apptest.Complete("HALLEY_FUNCTIONS", "leaderboard", "HALLEY_DEAD_LETTERS", "container"))
	s, err := settings.Load(settings.Source{Handlers: apptest.Handlers()})
	if err != nil {
		t.Fatal(err)
	}
	fn := s.Functions[0].TriggerFunction(nil)
	source := fn.DeadLetterSource()
	var store listedStore
	began := time.Unix(1_790_000_000, 0)
	for i := range 1200 {
		store.records = append(store.records, trigger.DeadLetter{
			Version: trigger.DeadLetterVersion, Kind: trigger.RecordDead, ID: fmt.Sprint("letter", i), Function: source.Function, Range: fmt.Sprint(i % 2),
			Key: fmt.Sprintf(`["player-%d"]`, i), Time: began.Add(time.Duration(i) * time.Second),
		})
	}
	opened := trigger.Function{FeedSource: fn.FeedSource, DeadLetters: store}
	o := &Operator{settings: s, opened: func(string) (trigger.Function, error) { return opened, nil }}
	ask := func(filter url.Values) (a letterAnswer) {
		t.Helper()
		p, err := page.New(page.Options{
			App: "shop", Token: "0123456789abcdef", Recorder: &page.Recorder{}, Private: true,
			Source: page.Source{Look: func(context.Context) page.State { return page.State{} }, DeadLetters: o.deadLetters, SearchDeadLetters: o.searchDeadLetters},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8082/api/v1/letters?"+filter.Encode(), nil)
		r.Header.Set("Authorization", "Bearer 0123456789abcdef")
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		return a
	}
	if a := ask(nil); a.Total != 1000 || !a.Cut || a.Searched != nil {
		t.Errorf("without a filter %d, cut %v, searched %v", a.Total, a.Cut, a.Searched)
	}
	for _, test := range []struct {
		filter          url.Values
		found, searched int
	}{
		{url.Values{"key": {"player-7\""}}, 1, 1200},
		{url.Values{"key": {`["player-7"]`}}, 1, 1},
		{url.Values{"range": {"1"}}, 600, 600},
		{url.Values{"key": {"nobody"}}, 0, 1200},
	} {
		a := ask(test.filter)
		if a.Total != test.found || a.Cut || a.Searched == nil || *a.Searched != test.searched || len(a.Items) != min(test.found, 50) && test.found < 50 {
			t.Errorf("%v: %+v, want %d found in %d", test.filter, a, test.found, test.searched)
		}
	}
	opened.DeadLetters = endlessStore{store}
	searched, stopped := o.searchDeadLetters(t.Context(), trigger.RecordDead, page.Selection{Key: `["player-7"]`}, func(trigger.DeadLetter, error) bool { return true })
	if searched != 60_000 || !stopped {
		t.Errorf("%d records searched, stopped %v", searched, stopped)
	}
}
