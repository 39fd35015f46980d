package settings

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"halley/function/app/internal/apptest"
	"halley/trigger"
	"halley/trigger/cosmos"
)

var byValue = cmp.Options{
	cmp.AllowUnexported(trigger.Start{}),
	cmp.Comparer(func(a, b StoreSetting) bool { return a.Kind == b.Kind && a.Name == b.Name }),
}

func TestDeliveryDefaults(t *testing.T) {
	s, err := load(t, apptest.Complete())
	if err != nil {
		t.Fatal(err)
	}
	want := Delivery{
		HandlerTimeout: interval(5 * time.Minute), StuckGrace: interval(10 * time.Second),
		BatchBytes: 4 << 20, Lanes: 1, MaxAhead: 1000,
		RetryMin: interval(100 * time.Millisecond), RetryMax: interval(30 * time.Second), MaxAttempts: 10,
		DeadLetters: StoreSetting{Kind: "container"}, DeadLettersConnection: "AzureWebJobsStorage",
		BreakerLimit: 10, BreakerPause: interval(time.Minute), StallAfter: interval(time.Minute), LostPosition: "stall",
		CheckpointInterval: saveInterval(200 * time.Millisecond),
	}
	if diff := cmp.Diff(want, function1(t, s, "push").Delivery, byValue); diff != "" {
		t.Errorf("push (-want +got):\n%s", diff)
	}
}

func TestPolicyReachesTheRuntime(t *testing.T) {
	s, err := load(t, apptest.Complete(
		"HALLEY_FUNCTIONS", "leaderboard",
		"HALLEY_CHANGE_FEED_MODE", "latest-version",
		"HALLEY_LEADERBOARD_CHANGE_FEED_MODE", "AllVersionsAndDeletes",
		"HALLEY_MAX_ITEMS_PER_INVOCATION", "20",
		"HALLEY_PAGE_ITEMS", "500",
		"HALLEY_BATCH_BYTES", "1000000",
		"HALLEY_BATCH_WINDOW", "250ms",
		"HALLEY_LANES", "4",
		"HALLEY_LEADERBOARD_LANES", "8",
		"HALLEY_LEADERBOARD_LANES_BY_ID", "true",
		"HALLEY_MAX_AHEAD", "5000",
		"HALLEY_RETRY_MIN", "1s",
		"HALLEY_RETRY_MAX", "1m",
		"HALLEY_NO_BISECTION", "true",
		"HALLEY_MAX_ATTEMPTS", "unlimited",
		"HALLEY_RETRY_MAX_AGE", "1h",
		"HALLEY_BREAKER_LIMIT", "unlimited",
		"HALLEY_BREAKER_PAUSE", "5s",
		"HALLEY_LOST_POSITION", "seek",
		"HALLEY_CHECKPOINT_EVERY", "500",
		"HALLEY_CHECKPOINT_INTERVAL", "5000",
		"HALLEY_RESET_LEASES", "true",
		"HALLEY_HANDLER_TIMEOUT", "90s",
		"HALLEY_STUCK_GRACE", "3s",
		"HALLEY_RATE", "0.5",
		"HALLEY_LEADERBOARD_RATE", "1e3",
		"HALLEY_READ_REQUEST_UNITS", "12.5",
		"HALLEY_FEED_POLL_MIN", "1s",
	))
	if err != nil {
		t.Fatal(err)
	}
	f := function1(t, s, "leaderboard")
	want := trigger.Function{
		FeedSource: trigger.FeedSource{Name: "leaderboard", LeasePrefix: "leaderboard", ChangeFeedMode: cosmos.ModeAllVersions},
		BatchPolicy: trigger.BatchPolicy{
			PageItems: 500, MaxItemsPerInvocation: 20, BatchBytes: 1_000_000, BatchWindow: 250 * time.Millisecond, Lanes: 8, LanesByID: true, MaxAhead: 5000,
		},
		RetryPolicy:    trigger.RetryPolicy{RetryMin: time.Second, RetryMax: time.Minute, NoBisection: true},
		GiveUpPolicy:   trigger.GiveUpPolicy{MaxAttempts: -1, RetryMaxAge: time.Hour, BreakerLimit: -1, BreakerPause: 5 * time.Second},
		RateLimits:     trigger.RateLimits{FeedPollDelay: 5 * time.Second, FeedPollMin: time.Second, Rate: 1000, ReadRequestUnits: 12.5},
		HandlerTimeout: 90 * time.Second, StallAfter: time.Minute, LostPosition: "seek", Checkpoint: trigger.Checkpoint{Every: 500, Interval: 5 * time.Second},
		ResetLeases: true, DeadLetters: unopened{},
	}
	if diff := cmp.Diff(want, f.TriggerFunction(nil), byValue); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFilterReachesTheRuntime(t *testing.T) {
	for _, test := range []struct {
		all, own string
		want     trigger.Filter
		printed  string
	}{
		{"", "", nil, ""},
		{` {"a": [1]}`, "", nil, ""},
		{`{"a": [1]}`, "-", trigger.Filter{`{"a": [1]}`}, `{"a": [1]}`},
		{`{"a": [1]}`, `[{"b":["="]},{"c":[null]}]`, trigger.Filter{`{"b":["="]}`, `{"c":[null]}`}, `[{"b":["="]}, {"c":[null]}]`},
		{`{"a": [1]}`, `[]`, trigger.Filter{}, ""},
	} {
		env := []string{"HALLEY_FILTER", test.all}
		if test.own != "-" { // an empty own filter takes the app's back
			env = append(env, "HALLEY_PUSH_FILTER", test.own)
		}
		s, err := load(t, apptest.Complete(env...))
		if err != nil {
			t.Fatal(err)
		}
		f := function1(t, s, "push")
		if diff := cmp.Diff(test.want, f.TriggerFunction(nil).Filter); diff != "" {
			t.Errorf("%q (-want +got):\n%s", env, diff)
		}
		if !slices.ContainsFunc(s.Values, func(v Value) bool { return v.Name == "HALLEY_PUSH_FILTER" && v.Value == test.printed }) {
			t.Errorf("%q is not printed as %s", env, test.printed)
		}
	}
}

func TestAttemptsFollowTheStore(t *testing.T) {
	for value, want := range map[string]Limit{"container": 10, "directory:letters": 10, "drop": 10, "none": Unlimited} {
		s, err := load(t, apptest.Complete("HALLEY_DEAD_LETTERS", value))
		if err != nil {
			t.Fatal(err)
		}
		if got := function1(t, s, "push").MaxAttempts; got != want {
			t.Errorf("%s: %v attempts, want %v", value, got, want)
		}
	}
}

func TestCheckpointIntervalReachesTheRuntime(t *testing.T) {
	for _, test := range []struct {
		env     []string
		want    trigger.Checkpoint
		printed string
	}{
		{nil, trigger.Checkpoint{Interval: 200 * time.Millisecond}, "200ms"},
		{[]string{"HALLEY_CHECKPOINT_INTERVAL", "each-batch"}, trigger.Checkpoint{Interval: trigger.EachBatch}, "each-batch"},
		{[]string{"HALLEY_CHECKPOINT_EVERY", "5"}, trigger.Checkpoint{Every: 5}, "0s"},
		{[]string{"HALLEY_CHECKPOINT_EVERY", "5", "HALLEY_CHECKPOINT_INTERVAL", "1s"}, trigger.Checkpoint{Every: 5, Interval: time.Second}, "1s"},
		{[]string{"HALLEY_CHECKPOINT_MANUAL", "true"}, trigger.Checkpoint{Manual: true}, "0s"},
	} {
		s, err := load(t, apptest.Complete(test.env...))
		if err != nil {
			t.Fatal(err)
		}
		f := function1(t, s, "push")
		if got := f.TriggerFunction(nil).Checkpoint; got != test.want || f.CheckpointInterval.String() != test.printed {
			t.Errorf("%q: %+v, printed %s, want %+v and %s", test.env, got, f.CheckpointInterval, test.want, test.printed)
		}
	}
}

func TestPoliciesAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ env, says []string }{
		"rate in words":       {[]string{"HALLEY_RATE", "ten"}, []string{"HALLEY_RATE", "0.5"}},
		"negative rate":       {[]string{"HALLEY_PUSH_RATE", "-1"}, []string{"HALLEY_PUSH_RATE=-1", "0 is no limit"}},
		"rate not a number":   {[]string{"HALLEY_RATE", "NaN"}, []string{"HALLEY_RATE=NaN", "0 is no limit"}},
		"infinite units":      {[]string{"HALLEY_READ_REQUEST_UNITS", "+Inf"}, []string{"HALLEY_READ_REQUEST_UNITS=+Inf", "0 is no limit"}},
		"zero poll":           {[]string{"HALLEY_FEED_POLL_MIN", "0"}, []string{"HALLEY_FEED_POLL_MIN", "above 0"}},
		"poll bounds":         {[]string{"HALLEY_FEED_POLL_MIN", "6s", "HALLEY_PUSH_FEED_POLL_DELAY", "5s"}, []string{"HALLEY_FEED_POLL_MIN=6s", "HALLEY_PUSH_FEED_POLL_DELAY=5s"}},
		"zero retry":          {[]string{"HALLEY_RETRY_MIN", "0"}, []string{"HALLEY_RETRY_MIN", "above 0"}},
		"negative window":     {[]string{"HALLEY_BATCH_WINDOW", "-1s"}, []string{"HALLEY_BATCH_WINDOW", "negative"}},
		"negative age":        {[]string{"HALLEY_RETRY_MAX_AGE", "-1s"}, []string{"HALLEY_RETRY_MAX_AGE", "negative"}},
		"zero pause":          {[]string{"HALLEY_PUSH_BREAKER_PAUSE", "0"}, []string{"HALLEY_PUSH_BREAKER_PAUSE", "above 0"}},
		"zero grace":          {[]string{"HALLEY_STUCK_GRACE", "0"}, []string{"HALLEY_STUCK_GRACE", "above 0"}},
		"retry bounds":        {[]string{"HALLEY_RETRY_MIN", "1m", "HALLEY_RETRY_MAX", "30s"}, []string{"HALLEY_RETRY_MIN=1m0s", "HALLEY_RETRY_MAX=30s"}},
		"manual and every":    {[]string{"HALLEY_CHECKPOINT_MANUAL", "true", "HALLEY_PUSH_CHECKPOINT_EVERY", "5"}, []string{"HALLEY_CHECKPOINT_MANUAL", "HALLEY_PUSH_CHECKPOINT_EVERY"}},
		"manual and interval": {[]string{"HALLEY_CHECKPOINT_MANUAL", "true", "HALLEY_CHECKPOINT_INTERVAL", "5s"}, []string{"HALLEY_CHECKPOINT_MANUAL", "HALLEY_CHECKPOINT_INTERVAL"}},
		"every and each":      {[]string{"HALLEY_CHECKPOINT_INTERVAL", "each-batch", "HALLEY_CHECKPOINT_EVERY", "5"}, []string{"HALLEY_CHECKPOINT_EVERY=5", "HALLEY_CHECKPOINT_INTERVAL"}},
		"zero interval":       {[]string{"HALLEY_CHECKPOINT_INTERVAL", "0"}, []string{"HALLEY_CHECKPOINT_INTERVAL=0s", "above 0"}},
		"negative interval":   {[]string{"HALLEY_CHECKPOINT_INTERVAL", "-5s"}, []string{"HALLEY_CHECKPOINT_INTERVAL=-5s", "negative"}},
		"one lane by id":      {[]string{"HALLEY_LANES_BY_ID", "true"}, []string{"HALLEY_LANES_BY_ID", "HALLEY_LANES"}},
		"lanes":               {[]string{"HALLEY_LANES", "0"}, []string{"HALLEY_LANES", "above 0"}},
		"attempts":            {[]string{"HALLEY_MAX_ATTEMPTS", "0"}, []string{"HALLEY_MAX_ATTEMPTS", "unlimited"}},
		"attempts, no store":  {[]string{"HALLEY_DEAD_LETTERS", "none", "HALLEY_MAX_ATTEMPTS", "5"}, []string{"HALLEY_MAX_ATTEMPTS=5", "HALLEY_DEAD_LETTERS=container"}},
		"age, no store":       {[]string{"HALLEY_PUSH_DEAD_LETTERS", "none", "HALLEY_RETRY_MAX_AGE", "5m"}, []string{"HALLEY_RETRY_MAX_AGE=5m0s", "HALLEY_PUSH_DEAD_LETTERS=container"}},
		"block, no store":     {[]string{"HALLEY_DEAD_LETTERS", "none", "HALLEY_BLOCK_KEYS", "true"}, []string{"HALLEY_BLOCK_KEYS", "HALLEY_DEAD_LETTERS=container"}},
		"block, dropped":      {[]string{"HALLEY_DEAD_LETTERS", "drop", "HALLEY_BLOCK_KEYS", "true"}, []string{"HALLEY_BLOCK_KEYS", "HALLEY_DEAD_LETTERS=container"}},
		"block by id":         {[]string{"HALLEY_LANES", "2", "HALLEY_LANES_BY_ID", "true", "HALLEY_BLOCK_KEYS", "true"}, []string{"HALLEY_BLOCK_KEYS", "HALLEY_LANES_BY_ID"}},
		"toggle":              {[]string{"HALLEY_BLOCK_KEYS", "yes"}, []string{"HALLEY_BLOCK_KEYS", "true"}},
		"bytes":               {[]string{"HALLEY_BATCH_BYTES", "4MB"}, []string{"HALLEY_BATCH_BYTES", "whole number"}},
		"store":               {[]string{"HALLEY_DEAD_LETTERS", "sql"}, []string{"HALLEY_DEAD_LETTERS", "container:NAME"}},
		"store name":          {[]string{"HALLEY_DEAD_LETTERS", "blob:Dead_Letters"}, []string{"HALLEY_DEAD_LETTERS", "blob:CONTAINER"}},
		"storage unnamed":     {[]string{"HALLEY_DEAD_LETTERS", "queue:dead", "HALLEY_PUSH_DEAD_LETTERS_CONNECTION", ""}, []string{"HALLEY_PUSH_DEAD_LETTERS_CONNECTION", "connection"}},
		"monitored letters":   {[]string{"HALLEY_DEAD_LETTERS", "container:results"}, []string{"HALLEY_DEAD_LETTERS=container:results", "monitored"}},
		"another's letters":   {[]string{"HALLEY_PUSH_CONTAINER_NAME", "scores", "HALLEY_LEADERBOARD_DEAD_LETTERS", "container:scores"}, []string{"HALLEY_LEADERBOARD_DEAD_LETTERS", "monitored container of push"}},
	} {
		t.Run(name, func(t *testing.T) { expectRefusal(t, test.env, test.says) })
	}
}

// TestFunctionsOfOneLeasePrefixMayShareAStore: dead letters carry the names of
// their functions, which differ.
func TestFunctionsOfOneLeasePrefixMayShareAStore(t *testing.T) {
	if _, err := load(t, apptest.Complete("HALLEY_PUSH_CONTAINER_NAME", "scores", "HALLEY_LEASE_CONTAINER_PREFIX", "")); err != nil {
		t.Error(err)
	}
}

func TestEveryStoreKindIsDescribed(t *testing.T) {
	field, _ := reflect.TypeFor[Delivery]().FieldByName("DeadLetters")
	for _, row := range storeKinds(storageKinds()) {
		if !strings.Contains(field.Tag.Get("desc"), row.Name) {
			t.Errorf("the setting's description does not name the kind %s", row.Name)
		}
		if row.Keeps == (row.Note != "") || row.placeholder != "" && row.checkName == nil {
			t.Errorf("the row of kind %s is not complete", row.Name)
		}
	}
}

// An app without the packages of a kind says which package to link.
func TestStoreKindsThatAreNotLinked(t *testing.T) {
	for text, says := range map[string]string{
		"table:dead": "container, container:NAME, directory:PATH, drop or none",
		"blob:dead":  "halley/function/app/azurestorage",
		"queue:dead": "app.Options.DeadLetterStores",
	} {
		apptest.CleanEnv(t, apptest.Complete("HALLEY_DEAD_LETTERS", text))
		if _, err := Load(Source{Handlers: apptest.Handlers()}); err == nil || !strings.Contains(err.Error(), "HALLEY_DEAD_LETTERS") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

func TestResetLeasesIsRefusedUnderPlatforms(t *testing.T) {
	s, err := load(t, apptest.Complete("HALLEY_PUSH_RESET_LEASES", "true"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Durable("AWS Lambda"); err == nil || !strings.Contains(err.Error(), "HALLEY_PUSH_RESET_LEASES") || strings.Contains(err.Error(), "HALLEY_LEADERBOARD") {
		t.Errorf("error %v", err)
	}
	if s, err = load(t, apptest.Complete()); err != nil || s.Durable("AWS Lambda") != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

func TestDecodeStoreSetting(t *testing.T) {
	rows := storeKinds(storageKinds())
	for in, want := range map[string]string{
		"container":          "container",
		"container:dead":     "container:dead",
		"directory:a/../b":   "directory:b",
		"directory:/x/y:z":   "directory:/x/y:z",
		"blob:dead-letters":  "blob:dead-letters",
		"queue:dead-letters": "queue:dead-letters",
		"drop":               "drop",
		"none":               "none",
	} {
		var l StoreSetting
		if err := errors.Join(l.Decode(in), l.resolve(rows)); err != nil || l.String() != want || l.Row().Name != l.Kind {
			t.Errorf("%q = %v, %v, want %v", in, l, err, want)
		}
		if before := l; l.Decode("") != nil || l != before {
			t.Errorf("an empty value changes %v to %v", before, l)
		}
	}
	for _, in := range []string{
		"container:", "container:a/b", "directory", "directory:", "blob", "blob:ab", "blob:-abc", "blob:a--b", "blob:Abc",
		"blob:" + strings.Repeat("a", 64), "queue:", "none:x", "drop:", "Container", "x",
	} {
		var l StoreSetting
		if err := errors.Join(l.Decode(in), l.resolve(rows)); err == nil || l.Row().Name != "" {
			t.Errorf("%q = %v, %v, want an error", in, l, err)
		}
	}
}
