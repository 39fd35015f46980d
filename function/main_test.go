package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/SherClockHolmes/webpush-go"
	"github.com/google/go-cmp/cmp"
	"github.com/kelseyhightower/envconfig"

	"halley/handlers"
	"halley/handlers/game"
	"halley/handlers/push"
	"halley/handlers/redis/leaderboard"
	"halley/tests/long"
	"halley/trigger/cosmos"
)

func TestEntriesAreWellFormed(t *testing.T) {
	for _, e := range demoApp().Handlers {
		if e.Summary == "" || strings.Contains(e.Summary, "\n") {
			t.Errorf("%s: summary is %q", e.Name, e.Summary)
		}
		fields := reflect.TypeOf(e.Settings()).Elem()
		for f := range fields.Fields() {
			if f.Tag.Get("desc") == "" {
				t.Errorf("%s: setting %s has no desc", e.Name, f.Name)
			}
			if f.Tag.Get("envconfig") != "" { // read without the prefix, too
				t.Errorf("%s: setting %s has another name", e.Name, f.Name)
			}
		}
	}
}

// If a name of a setting changes, the apps of users break.
func TestSettingNamesAreStable(t *testing.T) {
	want := map[string][]string{
		"leaderboard": {"HALLEY_LEADERBOARD_REDIS_URL", "HALLEY_LEADERBOARD_KEY_PREFIX", "HALLEY_LEADERBOARD_RESULT"},
		"push": {"HALLEY_PUSH_REDIS_URL", "HALLEY_PUSH_KEY_PREFIX", "HALLEY_PUSH_RESULT", "HALLEY_PUSH_VAPID_PUBLIC_KEY", "HALLEY_PUSH_VAPID_PRIVATE_KEY",
			"HALLEY_PUSH_VAPID_SUBJECT", "HALLEY_PUSH_SUBSCRIPTIONS_CONTAINER_NAME", "HALLEY_PUSH_SUBSCRIPTIONS_DATABASE_NAME",
			"HALLEY_PUSH_TOP", "HALLEY_PUSH_MAX_AGE", "HALLEY_PUSH_TTL", "HALLEY_PUSH_SEND_TIMEOUT", "HALLEY_PUSH_ENDPOINT_HOSTS", "HALLEY_PUSH_ALLOW_PRIVATE_ENDPOINTS"},
	}
	got := map[string][]string{}
	for name := range want {
		e := find(t, name)
		var listed strings.Builder
		err := envconfig.Usagef(strings.TrimSuffix(e.Prefix(), "_"), e.Settings(), &listed, "{{range .}}{{usage_key .}} {{end}}")
		if err != nil {
			t.Fatal(err)
		}
		got[name] = strings.Fields(listed.String())
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// The settings page describes the handlers as they are: package app, whose tests write the
// page, has stand-ins for them.
func TestSettingsPageDescribesTheHandlers(t *testing.T) {
	page, err := os.ReadFile("../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(page)) {
		if name, row, ok := strings.Cut(line, " | "); ok {
			rows[strings.Trim(name, "| `")] = strings.TrimSuffix(row, " |\n")
		}
	}
	for _, e := range demoApp().Handlers {
		var listed strings.Builder
		if err := envconfig.Usagef(strings.TrimSuffix(e.Prefix(), "_"), e.Settings(), &listed, "{{range .}}{{usage_key .}}\t{{usage_default .}}\t{{usage_description .}}\n{{end}}"); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(listed.String()) {
			field := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			row := rows[field[0]]
			if !strings.HasSuffix(row, "| "+field[2]) || !strings.HasPrefix(row, "`"+field[1]+"`") && field[1] != "" {
				t.Errorf("the row of %s is %q, want %q and %q", field[0], row, field[1], field[2])
			}
		}
	}
}

func find(t *testing.T, name string) handlers.Entry {
	t.Helper()
	for _, e := range demoApp().Handlers {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("no handler %s", name)
	return handlers.Entry{}
}

func TestLoadReadsSettings(t *testing.T) {
	t.Setenv("HALLEY_PUSH_REDIS_URL", "redis://:hunter2@cache")
	t.Setenv("HALLEY_PUSH_VAPID_PUBLIC_KEY", "public")
	t.Setenv("HALLEY_PUSH_VAPID_PRIVATE_KEY", "hunter2")
	t.Setenv("HALLEY_PUSH_VAPID_SUBJECT", "ops@example.com")
	t.Setenv("HALLEY_PUSH_SUBSCRIPTIONS_DATABASE_NAME", "people")
	t.Setenv("HALLEY_PUSH_TOP", "25")
	t.Setenv("HALLEY_PUSH_MAX_AGE", "90s")
	t.Setenv("HALLEY_PUSH_TTL", "1500")
	t.Setenv("HALLEY_PUSH_SEND_TIMEOUT", "") // the default
	t.Setenv("HALLEY_PUSH_ENDPOINT_HOSTS", "fcm.googleapis.com,.push.apple.com")
	t.Setenv("HALLEY_PUSH_ALLOW_PRIVATE_ENDPOINTS", "true")
	got, err := find(t, "push").Load()
	if err != nil {
		t.Fatal(err)
	}
	want := &push.Settings{
		RedisURL:                   "redis://:hunter2@cache",
		KeyPrefix:                  "push:",
		Result:                     game.DefaultPaths(),
		VAPIDPublicKey:             "public",
		VAPIDPrivateKey:            "hunter2",
		VAPIDSubject:               "ops@example.com",
		SubscriptionsContainerName: "subscriptions",
		SubscriptionsDatabaseName:  "people",
		Top:                        25,
		MaxAge:                     handlers.Interval(90 * time.Second),
		TTL:                        handlers.Interval(1500 * time.Millisecond),
		SendTimeout:                handlers.Interval(10 * time.Second),
		EndpointHosts:              []string{"fcm.googleapis.com", ".push.apple.com"},
		AllowPrivateEndpoints:      true,
	}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if text := fmt.Sprintf("%v %+v %#v", got, got, got); strings.Contains(text, "hunter2") {
		t.Errorf("settings print secrets: %s", text)
	}
}

func TestBadSettingsAreNamed(t *testing.T) {
	private, public, err := webpush.GenerateVAPIDKeys()
	if err != nil {
		t.Fatal(err)
	}
	good := map[string]string{
		"HALLEY_LEADERBOARD_REDIS_URL":  "redis://cache",
		"HALLEY_PUSH_REDIS_URL":         "redis://cache",
		"HALLEY_PUSH_VAPID_PUBLIC_KEY":  public,
		"HALLEY_PUSH_VAPID_PRIVATE_KEY": private,
		"HALLEY_PUSH_VAPID_SUBJECT":     "ops@example.com",
	}
	tests := []struct{ handler, key, value, want string }{
		{"leaderboard", "HALLEY_LEADERBOARD_REDIS_URL", "", "open handler leaderboard: setting HALLEY_LEADERBOARD_REDIS_URL is empty; set it to a URL"},
		{"push", "HALLEY_PUSH_REDIS_URL", "cache:6379", "open handler push: setting HALLEY_PUSH_REDIS_URL is not a Redis URL"},
		{"push", "HALLEY_PUSH_TOP", "ten", `read settings of handler push: setting HALLEY_PUSH_TOP is "ten": not a whole number above 0`},
		{"push", "HALLEY_PUSH_MAX_AGE", "one", `setting HALLEY_PUSH_MAX_AGE is "one": not a duration: write "5s"`},
		{"push", "HALLEY_PUSH_MAX_AGE", "1", "open handler push: setting HALLEY_PUSH_MAX_AGE is 1ms; it must be at least 1s"},
		{"push", "HALLEY_PUSH_TOP", "1001", "open handler push: setting HALLEY_PUSH_TOP is 1001; it must be 1 to 1000"},
		{"push", "HALLEY_PUSH_VAPID_PUBLIC_KEY", "AAAA", "setting HALLEY_PUSH_VAPID_PUBLIC_KEY is not the public key of VAPID_PRIVATE_KEY"},
	}
	for _, tt := range tests {
		t.Run(tt.key+" "+tt.value, func(t *testing.T) {
			for key, value := range good {
				t.Setenv(key, value)
			}
			t.Setenv(tt.key, tt.value)
			e := find(t, tt.handler)
			settings, err := e.Load()
			if err == nil {
				_, _, err = e.Open(t.Context(), handlers.Env{Container: noContainer}, settings)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
		})
	}
}

func noContainer(string, string) *cosmos.Container { return nil }

func TestEveryHandlerOpensWithoutConnecting(t *testing.T) {
	private, public, err := webpush.GenerateVAPIDKeys()
	if err != nil {
		t.Fatal(err)
	}
	const nowhere = handlers.URL("redis://127.0.0.1:1")
	for _, e := range demoApp().Handlers {
		settings, err := e.Load()
		if err != nil {
			t.Fatal(err)
		}
		switch s := settings.(type) {
		case *leaderboard.Settings:
			s.RedisURL = nowhere
		case *push.Settings:
			s.RedisURL, s.VAPIDPublicKey, s.VAPIDPrivateKey, s.VAPIDSubject = nowhere, push.PublicKey(public), handlers.Secret(private), "ops@example.com"
		}
		handle, closer, err := e.Open(t.Context(), handlers.Env{Container: noContainer}, settings)
		if err != nil || handle == nil {
			t.Errorf("%s: %v", e.Name, err)
			continue
		}
		if err := closer(); err != nil {
			t.Errorf("close %s: %v", e.Name, err)
		}
	}
}

// The development run of the demo: both handlers get all results, and players who are
// overtaken are notified.
func TestDevOfTheDemo(t *testing.T) {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "HALLEY_") {
			t.Setenv(name, "") // restores it afterwards
			os.Unsetenv(name)
		}
	}
	var stdout, stderr bytes.Buffer
	demo := demoApp()
	demo.Stdout, demo.Stderr = &stdout, &stderr
	if code := demo.Run(t.Context(), []string{"dev", "--for", "2s", "--rate", "200", "--hosts", "2", "--split-after", "500ms", "--json"}); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr.String())
	}
	var summary struct {
		Written, Lost int
		Figures       map[string]int
		Functions     []struct {
			Name      string
			Delivered int
		}
	}
	if err := json.Unmarshal(stdout.Bytes(), &summary); err != nil {
		t.Fatalf("%v\n%s", err, stdout.String())
	}
	if summary.Lost != 0 || summary.Written < 200 || len(summary.Functions) != 2 || summary.Figures["notifications received"] == 0 {
		t.Errorf("summary %s", stdout.String())
	}
}

func TestVersionWithoutVCSStamp(t *testing.T) {
	long.Only(t, "builds the binary")
	binary := filepath.Join(t.TempDir(), "halley")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for args, want := range map[string]string{
		"version":   "halley devel " + runtime.Version() + "\n",
		"--version": "halley version devel\n",
	} {
		if out, err := exec.Command(binary, args).CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%s: %q, %v, want %q", args, out, err, want)
		}
	}
}
