package settings

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"halley/function/app/internal/apptest"
	"halley/trigger"
)

// withoutSetting are the fields of trigger.Function and trigger.Options that no
// setting of the same name sets, each with its reason.
var withoutSetting = map[string]string{
	"Name":         "the handlers' list",
	"LeasePrefix":  "LEASE_CONTAINER_PREFIX is the Cosmos DB extension's name",
	"Container":    "opened from CONNECTION, DATABASE_NAME and CONTAINER_NAME",
	"Handler":      "opened by the handler's package",
	"Opened":       "a callback",
	"Flush":        "a callback",
	"Closed":       "a callback",
	"SnapshotRead": "a callback",
	"Checkpoint":   "CHECKPOINT_EVERY, _INTERVAL and _MANUAL set its fields",
	"ReuseBuffers": "only the code of the handler knows if it keeps bytes",

	"AuditInterval": "not a setting yet",
	"ReadAhead":     "not a setting yet",
	"Parallel":      "not a setting yet",
	"Logger":        "LOG_LEVEL makes it",
	"Observers":     "callbacks",
}

// onlySettings are settings without a field of the same name.
var onlySettings = map[string]string{
	"Functions": "the app's", "Mode": "the app's", "LogLevel": "the app's", "LogFormat": "the app's", "MetricsAddress": "the app's", "PageToken": "the page's", "PageHideDocuments": "the page's", "Prices": "for the forecast",
	"Connection": "opens Container", "DatabaseName": "opens Container", "ContainerName": "opens Container", "PreferredLocations": "opens Container",
	"Priority": "opens Container", "ThroughputBucket": "opens Container", "LeasePriority": "opens the leases", "LeaseThroughputBucket": "opens the leases",
	"LeaseConnection": "opens the leases", "LeaseDatabaseName": "opens the leases", "LeaseContainerName": "opens the leases",
	"LeaseContainerPrefix":  "LeasePrefix",
	"DeadLettersConnection": "opens DeadLetters", "DeadLetterRetention": "opens DeadLetters",
	"CheckpointEvery": "Checkpoint.Every", "CheckpointInterval": "Checkpoint.Interval", "CheckpointManual": "Checkpoint.Manual",
}

func TestFieldsAndSettingsHaveTheSameNames(t *testing.T) {
	settings, fields := map[string]bool{}, map[string]bool{}
	var f Function
	for _, spec := range f.specs(&App{}) {
		for field := range reflect.ValueOf(spec).Elem().Fields() {
			settings[field.Name] = true
		}
	}
	for _, of := range []any{trigger.Function{}, trigger.Options{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
			if field.Anonymous { // its fields are visible, too
				continue
			}
			fields[field.Name] = true
			if _, excepted := withoutSetting[field.Name]; excepted == settings[field.Name] {
				t.Errorf("%T.%s: has a setting of its name: %v, is an exception: %v", of, field.Name, settings[field.Name], excepted)
			}
		}
	}
	for name := range settings {
		if _, excepted := onlySettings[name]; excepted == fields[name] {
			t.Errorf("%s: is a field: %v, is an exception: %v", name, fields[name], excepted)
		}
	}
	for name := range maps.Keys(withoutSetting) {
		if !fields[name] {
			t.Errorf("%s is an exception, and not a field", name)
		}
	}
}

// TestEverySettingReachesTheRuntime gives each setting of a shared name a value
// and finds it in its field.
func TestEverySettingReachesTheRuntime(t *testing.T) {
	for name := range runtimeSettings(t) {
		var f Function
		var app App
		for _, spec := range f.specs(&app) {
			v := reflect.ValueOf(spec).Elem()
			setting, ok := v.Type().FieldByName(name)
			if !ok {
				continue
			}
			fill(t, v.FieldByIndex(setting.Index))
		}
		if err := f.DeadLetters.resolve(storeKinds(storageKinds())); f.DeadLetters.Kind != "" && err != nil {
			t.Fatal(err)
		}
		fn, o := f.TriggerFunction(nil), f.HostOptions(&app)
		untouched := Function{}
		if reflect.DeepEqual(fn, untouched.TriggerFunction(nil)) && reflect.DeepEqual(o, untouched.HostOptions(&App{})) {
			t.Errorf("setting %s changes neither trigger.Function nor trigger.Options", name)
		}
	}
}

// runtimeSettings are the names of settings that the runtime is told of.
func runtimeSettings(t *testing.T) map[string]bool {
	t.Helper()
	elsewhere := slices.Collect(maps.Keys(onlySettings))
	reach := map[string]bool{"LeaseContainerPrefix": true, "CheckpointEvery": true, "CheckpointInterval": true, "CheckpointManual": true}
	var f Function
	for _, spec := range f.specs(&App{}) {
		for field := range reflect.ValueOf(spec).Elem().Fields() {
			if !slices.Contains(elsewhere, field.Name) {
				reach[field.Name] = true
			}
		}
	}
	return reach
}

// fill sets a value other than zero.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	if d, ok := v.Addr().Interface().(interface{ Decode(string) error }); ok {
		if err := d.Decode(settable(v.Type())); err != nil {
			t.Fatal(err)
		}
		return
	}
	v.SetString("x")
}

func TestZeroIsNotTakenForADefault(t *testing.T) {
	for _, name := range []string{"HALLEY_FEED_POLL_DELAY", "HALLEY_RETRY_MAX", "HALLEY_PUSH_STUCK_GRACE", "HALLEY_STOP_GRACE"} {
		if _, err := load(t, apptest.Complete(name, "0s")); err == nil || !strings.Contains(err.Error(), name+"=0s: must be above 0") {
			t.Errorf("%s=0s: error %v", name, err)
		}
	}
	if _, err := load(t, apptest.Complete("HALLEY_BATCH_WINDOW", "0s", "HALLEY_RETRY_MAX", "")); err != nil {
		t.Errorf("values that stand for themselves: %v", err)
	}
}

func TestAppSettingIsRefusedOnce(t *testing.T) {
	_, err := load(t, apptest.Complete("HALLEY_LEASE_RENEW_INTERVAL", "30s", "HALLEY_STOP_GRACE", "-1s"))
	if err == nil || strings.Count(err.Error(), "HALLEY_LEASE_RENEW_INTERVAL=") != 1 || strings.Count(err.Error(), "HALLEY_STOP_GRACE=") != 1 {
		t.Errorf("error %v", err)
	}
	if len(apptest.Handlers()) < 2 {
		t.Error("one handler shows nothing")
	}
}

func TestDefaultsFollowOtherSettings(t *testing.T) {
	s, err := load(t, apptest.Complete("HALLEY_RETRY_MIN", "1m", "HALLEY_PUSH_DEAD_LETTERS", "none"))
	if err != nil {
		t.Fatal(err)
	}
	f := function1(t, s, "push")
	if f.RetryMax != f.RetryMin || f.MaxAttempts != Unlimited || s.App.MaxStuck != 16 {
		t.Errorf("retries until %v, %v attempts, %d stuck", f.RetryMax, f.MaxAttempts, s.App.MaxStuck)
	}
}
