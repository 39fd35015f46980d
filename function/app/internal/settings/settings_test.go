package settings

import (
	"errors"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kelseyhightower/envconfig"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/standin/leaderboard"
	"halley/handlers/game"
	"halley/trigger"
	"halley/trigger/deadletter"
)

var storageName = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9]){2,62}$`)

// storageKinds are kinds that an app links, with the rules of Azure Storage for names.
func storageKinds() []deadletter.Kind {
	check := func(name string) error {
		if !storageName.MatchString(name) || len(name) > 63 {
			return errors.New("not a name for Azure Storage")
		}
		return nil
	}
	return []deadletter.Kind{{Name: "blob", Placeholder: "CONTAINER", CheckName: check}, {Name: "queue", Placeholder: "NAME", CheckName: check}}
}

func load(t *testing.T, env map[string]string) (*Settings, error) {
	t.Helper()
	apptest.CleanEnv(t, env)
	return Load(Source{Handlers: apptest.Handlers(), Stores: storageKinds()})
}

func function1(t *testing.T, s *Settings, name string) Function {
	t.Helper()
	for _, f := range s.Functions {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("function %s is not enabled", name)
	return Function{}
}

func TestDefaults(t *testing.T) {
	s, err := load(t, apptest.Complete())
	if err != nil {
		t.Fatal(err)
	}
	if s.App.Mode != ModeTimer || len(s.Functions) != len(apptest.Handlers()) {
		t.Errorf("mode %s with %d functions, want timer with all", s.App.Mode, len(s.Functions))
	}
	want := Feed{
		Connection: "CosmosDB", DatabaseName: "games", ContainerName: "results",
		LeaseConnection: "CosmosDB", LeaseDatabaseName: "games", LeaseContainerName: "leases", LeaseContainerPrefix: "push",
		FeedPollDelay:           interval(5 * time.Second),
		FeedPollMin:             interval(5 * time.Millisecond),
		LeaseAcquireInterval:    interval(13 * time.Second),
		LeaseExpirationInterval: interval(time.Minute),
		LeaseRenewInterval:      interval(17 * time.Second),
		MaxItemsPerInvocation:   100,
	}
	if diff := cmp.Diff(want, function1(t, s, "push").Feed, cmp.AllowUnexported(startFrom{}, trigger.Start{})); diff != "" {
		t.Errorf("push (-want +got):\n%s", diff)
	}
}

func TestFunctionOverridesApp(t *testing.T) {
	s, err := load(t, apptest.Complete(
		"HALLEY_FUNCTIONS", "leaderboard",
		"HALLEY_CONTAINER_NAME", "results",
		"HALLEY_LEADERBOARD_CONTAINER_NAME", "scores",
		"HALLEY_FEED_POLL_DELAY", "1500",
		"HALLEY_LEADERBOARD_LEASE_CONTAINER_PREFIX", "",
		"HALLEY_LEADERBOARD_START_FROM", "2026-01-31T09:00:00Z",
		"HALLEY_PREFERRED_LOCATIONS", "West Europe, North Europe",
		"HALLEY_LEADERBOARD_KEY_PREFIX", "board:",
	))
	if err != nil {
		t.Fatal(err)
	}
	f := function1(t, s, "leaderboard")
	if len(s.Functions) != 1 || f.ContainerName != "scores" || f.LeaseContainerPrefix != "" {
		t.Errorf("%d functions, container %q, prefix %q", len(s.Functions), f.ContainerName, f.LeaseContainerPrefix)
	}
	if f.FeedPollDelay != interval(1500*time.Millisecond) {
		t.Errorf("poll delay %v, want 1.5 s of plain milliseconds", f.FeedPollDelay)
	}
	if got := f.StartFrom.String(); got != "2026-01-31T09:00:00Z" {
		t.Errorf("start %s", got)
	}
	if got := f.PreferredLocations; len(got) != 2 || got[1] != "North Europe" {
		t.Errorf("locations %q", got)
	}
	if own := f.Own.(*leaderboard.Settings); own.KeyPrefix != "board:" {
		t.Errorf("own settings %+v", own)
	}
}

func TestSettingsAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		env  []string
		says []string
	}{
		"unknown":              {[]string{"HALLEY_FEED_POL_DELAY", "5s"}, []string{"HALLEY_FEED_POL_DELAY", "HALLEY_FEED_POLL_DELAY"}},
		"batch of before":      {[]string{"HALLEY_PUSH_BATCH_ITEMS", "5"}, []string{"HALLEY_PUSH_BATCH_ITEMS", "did you mean HALLEY_PUSH_MAX_ITEMS_PER_INVOCATION?"}},
		"lower case":           {[]string{"halley_mode", "timer"}, []string{"halley_mode", "HALLEY_MODE"}},
		"nothing near":         {[]string{"HALLEY_XYZZY", "1"}, []string{"HALLEY_XYZZY", "command check"}},
		"unknown of a handler": {[]string{"HALLEY_LEADERBOARD_REDIS_UR", "x"}, []string{"HALLEY_LEADERBOARD_REDIS_URL"}},
		"mode":                 {[]string{"HALLEY_MODE", "fast"}, []string{"HALLEY_MODE", "timer", "continuous"}},
		"duration":             {[]string{"HALLEY_FEED_POLL_DELAY", "five"}, []string{"HALLEY_FEED_POLL_DELAY", "five", "5s"}},
		"negative":             {[]string{"HALLEY_FEED_POLL_DELAY", "-1s"}, []string{"HALLEY_FEED_POLL_DELAY", "above 0"}},
		"zero poll":            {[]string{"HALLEY_FEED_POLL_DELAY", "0"}, []string{"HALLEY_FEED_POLL_DELAY", "above 0"}},
		"handler timeout":      {[]string{"HALLEY_HANDLER_TIMEOUT", "0s"}, []string{"HALLEY_HANDLER_TIMEOUT"}},
		"stop grace":           {[]string{"HALLEY_STOP_GRACE", "-5s"}, []string{"HALLEY_STOP_GRACE"}},
		"count":                {[]string{"HALLEY_MAX_ITEMS_PER_INVOCATION", "0"}, []string{"HALLEY_MAX_ITEMS_PER_INVOCATION", "above 0"}},
		"level":                {[]string{"HALLEY_LOG_LEVEL", "loud"}, []string{"HALLEY_LOG_LEVEL", "debug"}},
		"start":                {[]string{"HALLEY_START_FROM", "yesterday"}, []string{"HALLEY_START_FROM", "beginning"}},
		"function":             {[]string{"HALLEY_FUNCTIONS", "leaderbord"}, []string{"HALLEY_FUNCTIONS", "leaderboard"}},
		"function twice":       {[]string{"HALLEY_FUNCTIONS", "push,push"}, []string{"HALLEY_FUNCTIONS", "twice"}},
		"renewal too slow":     {[]string{"HALLEY_LEASE_RENEW_INTERVAL", "30s"}, []string{"HALLEY_LEASE_RENEW_INTERVAL", "half", "HALLEY_LEASE_EXPIRATION_INTERVAL"}},
		"retention of a file":  {[]string{"HALLEY_DEAD_LETTERS", "directory:/tmp", "HALLEY_DEAD_LETTER_RETENTION", "720h"}, []string{"HALLEY_DEAD_LETTER_RETENTION", "needs dead letters in a container"}},
		"retention and block":  {[]string{"HALLEY_BLOCK_KEYS", "true", "HALLEY_DEAD_LETTER_RETENTION", "720h"}, []string{"HALLEY_DEAD_LETTER_RETENTION", "HALLEY_BLOCK_KEYS=false"}},
		"retention too exact":  {[]string{"HALLEY_DEAD_LETTER_RETENTION", "1500ms"}, []string{"HALLEY_DEAD_LETTER_RETENTION", "whole seconds"}},
		"renewal by function":  {[]string{"HALLEY_PUSH_LEASE_EXPIRATION_INTERVAL", "20s"}, []string{"HALLEY_PUSH_LEASE_EXPIRATION_INTERVAL"}},
		"acquire too slow":     {[]string{"HALLEY_LEASE_ACQUIRE_INTERVAL", "60s"}, []string{"HALLEY_LEASE_ACQUIRE_INTERVAL"}},
		"seconds for millis":   {[]string{"HALLEY_LEASE_EXPIRATION_INTERVAL", "60"}, []string{"HALLEY_LEASE_EXPIRATION_INTERVAL", "milliseconds", "60s"}},
		"no database":          {[]string{"HALLEY_DATABASE_NAME", ""}, []string{"HALLEY_DATABASE_NAME", "HALLEY_PUSH_DATABASE_NAME"}},
		"no container":         {[]string{"HALLEY_CONTAINER_NAME", ""}, []string{"HALLEY_CONTAINER_NAME"}},
		"own connection empty": {[]string{"HALLEY_PUSH_CONNECTION", ""}, []string{"HALLEY_PUSH_CONNECTION"}},
		"shared prefix":        {[]string{"HALLEY_LEASE_CONTAINER_PREFIX", "p"}, []string{"leaderboard and push", "HALLEY_PUSH_LEASE_CONTAINER_PREFIX"}},
		"two without a prefix": {[]string{"HALLEY_LEADERBOARD_LEASE_CONTAINER_PREFIX", "", "HALLEY_PUSH_LEASE_CONTAINER_PREFIX", "/"}, []string{"leaderboard and push", "HALLEY_PUSH_LEASE_CONTAINER_PREFIX"}},
		"leases are monitored": {[]string{"HALLEY_LEASE_CONTAINER_NAME", "results"}, []string{"HALLEY_LEASE_CONTAINER_NAME", "monitored"}},
		"all versions from":    {[]string{"HALLEY_CHANGE_FEED_MODE", "all-versions", "HALLEY_PUSH_START_FROM", "beginning"}, []string{"HALLEY_PUSH_START_FROM=beginning", "HALLEY_CHANGE_FEED_MODE"}},
		"soft and real delete": {[]string{"HALLEY_CHANGE_FEED_MODE", "all-versions", "HALLEY_SOFT_DELETE_PROPERTY", "deleted"}, []string{"HALLEY_SOFT_DELETE_PROPERTY=deleted", "HALLEY_CHANGE_FEED_MODE"}},
		"filter":               {[]string{"HALLEY_FILTER", `[{"Lanes":["x"]},{"Lanes":"x"}]`}, []string{`HALLEY_FILTER=[{"Lanes":["x"]}, {"Lanes":"x"}]: pattern 2, at Lanes: rules are in a list: write ["x"]`}},
		"filter by function":   {[]string{"HALLEY_FILTER", `{"a":[1]}`, "HALLEY_PUSH_FILTER", `{"a":[{"below":1}]}`}, []string{"HALLEY_PUSH_FILTER", "pattern 1, at a[0]", "numeric"}},
		"filter without end":   {[]string{"HALLEY_FILTER", `[{"a":[1]},`}, []string{"HALLEY_FILTER", "byte 11"}},
		"feed mode":            {[]string{"HALLEY_CHANGE_FEED_MODE", "full"}, []string{"HALLEY_CHANGE_FEED_MODE", "latest-version", "all-versions"}},
		"minimum of leases":    {[]string{"HALLEY_MIN_LEASES", "5", "HALLEY_PUSH_MAX_LEASES", "4"}, []string{"HALLEY_MIN_LEASES=5", "HALLEY_PUSH_MAX_LEASES=4"}},
		"bound":                {[]string{"HALLEY_MAX_LEASES", "-1"}, []string{"HALLEY_MAX_LEASES", "0 or more"}},
		"max stuck":            {[]string{"HALLEY_MAX_STUCK", "0"}, []string{"HALLEY_MAX_STUCK", "above 0"}},
		"own setting":          {[]string{"HALLEY_PUSH_TOP", "many"}, []string{"HALLEY_PUSH_TOP", "many"}},
	} {
		t.Run(name, func(t *testing.T) { expectRefusal(t, test.env, test.says) })
	}
}

// expectRefusal fails the test unless the settings are refused with an error that says all
// texts.
func expectRefusal(t *testing.T, env, says []string) {
	t.Helper()
	_, err := load(t, apptest.Complete(env...))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error does not say %q:\n%v", text, err)
		}
	}
}

func TestEverythingWrongAtOnce(t *testing.T) {
	_, err := load(t, apptest.Complete("HALLEY_DATABASE_NAME", "", "HALLEY_FEED_POLL_DELAY", "0", "HALLEY_STOP_GRACE", "-1s"))
	for _, name := range []string{"HALLEY_DATABASE_NAME", "HALLEY_FEED_POLL_DELAY", "HALLEY_STOP_GRACE"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not reported beside the others: %v", name, err)
		}
	}
}

func TestSettingOfDisabledFunctionIsKnown(t *testing.T) {
	if _, err := load(t, apptest.Complete("HALLEY_FUNCTIONS", "leaderboard", "HALLEY_PUSH_TOP", "5")); err != nil {
		t.Error(err)
	}
}

func TestValuesHaveSourcesAndNoSecrets(t *testing.T) {
	s, err := load(t, apptest.Complete("HALLEY_PUSH_FEED_POLL_DELAY", "2s"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Value{}
	for _, v := range s.Values {
		got[v.Name] = v
		if strings.Contains(v.Value, "hunter2") || strings.Contains(v.Value, "very-secret") {
			t.Errorf("%s shows a secret: %s", v.Name, v.Value)
		}
	}
	for _, want := range []Value{
		{"HALLEY_MODE", "timer", "default"},
		{"HALLEY_FUNCTIONS", Names(apptest.Handlers()).String(), "default"},
		{"HALLEY_PUSH_FEED_POLL_DELAY", "2s", "environment HALLEY_PUSH_FEED_POLL_DELAY"},
		{"HALLEY_PUSH_DATABASE_NAME", "games", "environment HALLEY_DATABASE_NAME"},
		{"HALLEY_PUSH_LEASE_CONTAINER_PREFIX", "push", "default"},
		{"HALLEY_PUSH_START_FROM", "now", "default"},
		{"HALLEY_PUSH_VAPID_PRIVATE_KEY", "[redacted]", "environment HALLEY_PUSH_VAPID_PRIVATE_KEY"},
		{"HALLEY_LEADERBOARD_REDIS_URL", "redis://[redacted]@127.0.0.1:6379/[redacted]", "environment HALLEY_LEADERBOARD_REDIS_URL"},
	} {
		if got[want.Name] != want {
			t.Errorf("got %+v, want %+v", got[want.Name], want)
		}
	}
}

// TestKeysMatchEnvconfig sets each key that keys names and sees that envconfig
// reads it: the two spell alike, also for names such as VAPIDPublicKey.
func TestKeysMatchEnvconfig(t *testing.T) {
	specs := map[string]func() any{
		"HALLEY_TEST":  func() any { return &Feed{} },
		"HALLEY_TEST2": func() any { return &App{} },
		"HALLEY_TEST3": func() any { return &Delivery{} },
	}
	specs["HALLEY_TEST4"] = func() any {
		return &struct {
			MaxLength int
			RedisURL  string `split_words:"false"`
			VAPIDKey  string `split_words:"true"`
		}{}
	}
	for _, e := range apptest.Handlers() {
		specs[ownPrefix(e)] = e.Settings
	}
	for prefix, make := range specs {
		fields := reflect.TypeOf(make()).Elem()
		for i, key := range Keys(prefix, make()) {
			t.Run(key, func(t *testing.T) {
				apptest.CleanEnv(t, map[string]string{key: settable(fields.Field(i).Type)})
				spec, plain := make(), make()
				if err := envconfig.Process(prefix, spec); err != nil {
					t.Fatal(err)
				}
				os.Unsetenv(key)
				if err := envconfig.Process(prefix, plain); err != nil {
					t.Fatal(err)
				}
				if reflect.DeepEqual(spec, plain) {
					t.Errorf("envconfig does not read %s", key)
				}
			})
		}
	}
}

// settable is a value that is no type's default.
func settable(t reflect.Type) string {
	switch reflect.New(t).Interface().(type) {
	case *Mode:
		return "continuous"
	case *LogLevel:
		return "debug"
	case *LogFormat:
		return "text"
	case *startFrom:
		return "beginning"
	case *listenAddress:
		return "127.0.0.1:9464"
	case *interval, *saveInterval, *time.Duration:
		return "7s"
	case *feedMode:
		return "all-versions"
	case *priority:
		return "low"
	case *bucket:
		return "2"
	case *StoreSetting:
		return "drop"
	case *game.Paths:
		return "score=/points"
	case *Prices:
		return "serverless=0.25"
	case *bool, *toggle:
		return "true"
	case *count, *bound, *Limit, *perSecond, *int:
		return "7"
	}
	return "x"
}

// TestHandlerSettingsDoNotCollide: a handler's setting must not have the name of
// one that every function has.
func TestHandlerSettingsDoNotCollide(t *testing.T) {
	seen := map[string]string{}
	add := func(of string, names []string) {
		for _, name := range names {
			if other, ok := seen[name]; ok {
				t.Errorf("%s is a setting of %s and of %s", name, other, of)
			}
			seen[name] = of
		}
	}
	add("the app", Keys(prefix, &App{}))
	add("every function", Keys(prefix, &Feed{}))
	add("every function's delivery", Keys(prefix, &Delivery{}))
	for _, e := range apptest.Handlers() {
		add(e.Name+"'s feed", Keys(ownPrefix(e), &Feed{}))
		add(e.Name+"'s delivery", Keys(ownPrefix(e), &Delivery{}))
		add(e.Name, Keys(ownPrefix(e), e.Settings()))
	}
}

func TestEditDistance(t *testing.T) {
	for pair, want := range map[[2]string]int{
		{"", ""}: 0, {"a", ""}: 1, {"", "abc"}: 3, {"kitten", "sitting"}: 3, {"FEED_POL", "FEED_POLL"}: 1, {"ab", "ba"}: 2,
	} {
		if got := editDistance(pair[0], pair[1]); got != want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", pair[0], pair[1], got, want)
		}
	}
}
