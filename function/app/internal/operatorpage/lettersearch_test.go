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

// letterAnswer is what the page's API says about dead letters.
type letterAnswer struct {
	Items    []struct{ ID string }
	Total    int
	Searched int
	Stopped  bool
	Next     string
}

// The page lists all dead letters of a store, the newest first, and a filter finds the oldest
// ones. The store selects as much as it can, and the answer says how many records were read.
func TestPageListsTheStore(t *testing.T) {
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
			Key: fmt.Sprintf(`["player-%d"]`, i), Time: began.Add(time.Duration(i) * time.Second), Error: fmt.Sprintf("boom %d.", i/10),
		})
	}
	opened := trigger.Function{FeedSource: fn.FeedSource, DeadLetters: store}
	o := &Operator{settings: s, opened: func(string) (trigger.Function, error) { return opened, nil }}
	ask := func(filter url.Values) (a letterAnswer) {
		t.Helper()
		p, err := page.New(page.Options{
			App: "shop", Token: "0123456789abcdef", Recorder: &page.Recorder{}, Private: true,
			Source: page.Source{Look: func(context.Context) page.State { return page.State{} }, DeadLetters: o.deadLetters},
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
	count, newest := 0, ""
	for filter := (url.Values{}); ; {
		a := ask(filter)
		if newest == "" {
			newest = a.Items[0].ID
		}
		if count += len(a.Items); a.Total != 1200 || a.Searched != count || a.Stopped {
			t.Errorf("after %d the answer says %d of %d", count, a.Searched, a.Total)
		}
		if a.Next == "" {
			break
		}
		filter = url.Values{"after": {a.Next}}
	}
	if count != 1200 || newest != "letter1199" {
		t.Errorf("%d are listed, the first is %s", count, newest)
	}
	for _, test := range []struct {
		filter                 url.Values
		found, total, searched int
	}{
		{url.Values{"key": {"player-7\""}}, 1, 1200, 1200},
		{url.Values{"key": {`["player-7"]`}}, 1, 1, 1},
		{url.Values{"range": {"1"}}, 100, 600, 100},
		{url.Values{"error": {"boom 11."}}, 10, 10, 10},
		{url.Values{"key": {"nobody"}}, 0, 1200, 1200},
		{url.Values{"function": {"other"}}, 0, 0, 0},
	} {
		if a := ask(test.filter); len(a.Items) != test.found || a.Total != test.total || a.Searched != test.searched {
			t.Errorf("%v: %d found, %d of %d searched, want %d, %d, %d", test.filter, len(a.Items), a.Searched, a.Total, test.found, test.searched, test.total)
		}
	}
}
