package app

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/leases"
)

// The settings of a function map to the fields of trigger.Function and
// trigger.Options that have their names, which hold all rules and defaults. This
// file translates names and values in both directions.

// The exceptions from equal names: LEASE_CONTAINER_PREFIX is the Cosmos DB
// extension's name for LeasePrefix, and each field of the nested Checkpoint is a
// setting of its own.
const (
	prefixSetting    = "LeaseContainerPrefix"
	prefixField      = "LeasePrefix"
	checkpointPrefix = "Checkpoint"
)

// specs are the structs whose fields are settings of the function or of the app.
func (f *functionSettings) specs(app *appSettings) []any {
	return []any{app, &f.feedSettings, &f.deliverySettings}
}

// runtimeField returns the field of a trigger.Function or trigger.Options that
// the setting is copied to. It is not valid if there is none.
func runtimeField(of reflect.Value, setting reflect.StructField) reflect.Value {
	name := setting.Name
	if rest, ok := strings.CutPrefix(name, checkpointPrefix); ok && of.FieldByName(checkpointPrefix).IsValid() {
		of, name = of.FieldByName(checkpointPrefix), rest
	}
	field := of.FieldByName(name)
	if field.IsValid() && !setting.Type.ConvertibleTo(field.Type()) {
		return reflect.Value{} // DeadLetters: a setting names the store
	}
	return field
}

// toRuntime copies settings to the fields of their names in to, a pointer.
func toRuntime(to any, specs ...any) {
	for _, spec := range specs {
		for setting, value := range reflect.ValueOf(spec).Elem().Fields() {
			if field := runtimeField(reflect.ValueOf(to).Elem(), setting); field.IsValid() {
				field.Set(value.Convert(field.Type()))
			}
		}
	}
}

// fromRuntime copies fields of from, a pointer, to the settings of their names.
func fromRuntime(from any, specs ...any) {
	for _, spec := range specs {
		for setting, value := range reflect.ValueOf(spec).Elem().Fields() {
			if field := runtimeField(reflect.ValueOf(from).Elem(), setting); field.IsValid() {
				value.Set(field.Convert(value.Type()))
			}
		}
	}
}

// function returns the function that the settings describe, without its handler
// and with a placeholder for a store that keeps dead letters.
func (f *functionSettings) function(monitored *cosmos.Container) trigger.Function {
	fn := trigger.Function{FeedSource: trigger.FeedSource{Name: f.Name, LeasePrefix: f.LeaseContainerPrefix, Container: monitored}, DeadLetters: f.DeadLetters.row().placeholderStore}
	if fn.LeasePrefix == "" { // which the Functions trigger has by default
		fn.LeasePrefix = trigger.NoLeasePrefix
	}
	toRuntime(&fn, &f.feedSettings, &f.deliverySettings)
	return fn
}

// leaseSource returns the function as its leases see it.
func (f *functionSettings) leaseSource(monitored *cosmos.Container) leases.Source {
	return leases.Source(f.function(monitored).FeedSource)
}

// options returns the options of a host that runs the function. FeedPollDelay is
// each function's own.
func (f *functionSettings) options(app *appSettings) trigger.Options {
	var o trigger.Options
	toRuntime(&o, f.specs(app)...)
	o.FeedPollDelay = 0
	return o
}

// fillDefaults replaces zero settings of the app by the defaults of the runtime,
// and returns an error for each that was set to 0.
func (a *appSettings) fillDefaults() []error {
	before := *a
	var o trigger.Options
	toRuntime(&o, a)
	o = o.WithDefaults()
	fromRuntime(&o, a)
	return zeros(&before, a, func(name string) string { return prefix + "_" + name })
}

// fillDefaults does the same with the settings of a function.
func (f *functionSettings) fillDefaults(app *appSettings) []error {
	feed, delivery := f.feedSettings, f.deliverySettings
	o, fn := f.options(app).WithDefaults(), f.function(nil).WithDefaults()
	fn.FeedPollDelay = cmp.Or(fn.FeedPollDelay, o.FeedPollDelay)
	fromRuntime(&o, &f.feedSettings, &f.deliverySettings)
	fromRuntime(&fn, &f.feedSettings, &f.deliverySettings)
	return append(zeros(&feed, &f.feedSettings, f.setting), zeros(&delivery, &f.deliverySettings, f.setting)...)
}

// zeros refuses settings that a variable sets to 0 although a zero field stands
// for another default: the variable would have no effect.
func zeros(before, after any, variable func(name string) string) (errs []error) {
	was := reflect.ValueOf(before).Elem()
	for setting, value := range reflect.ValueOf(after).Elem().Fields() {
		zero := was.FieldByName(setting.Name)
		if name := variable(envName(setting)); zero.IsZero() && !value.IsZero() && os.Getenv(name) != "" {
			errs = append(errs, fmt.Errorf("%s=%v: must be above 0", name, zero))
		}
	}
	return errs
}

// problems words the runtime's objections to the function and its host with the
// names of settings.
func (f *functionSettings) problems(app *appSettings) (errs []error) {
	for _, p := range append(f.function(nil).Validate(), f.options(app).Validate()...) {
		if p.Field == "Container" || p.Field == "Handler" {
			continue // opened after the settings are read
		}
		setting, value, ok := f.lookup(app, p.Field)
		if !ok {
			errs = append(errs, fmt.Errorf("HALLEY_FUNCTIONS=%s: %v", f.Name, p)) // a field without a setting
			continue
		}
		reason := p.Reason
		if p.Field != "Filter" { // whose reason names fields of documents
			reason = f.reword(app, reason) + unitHint(setting)
		}
		errs = append(errs, fmt.Errorf("%s=%v: %s", setting, value, reason))
	}
	return errs
}

// lookup returns the name of the variable that sets a field of the runtime, and
// the setting's value.
func (f *functionSettings) lookup(app *appSettings, field string) (name string, value any, ok bool) {
	field = strings.ReplaceAll(field, ".", "")
	if field == prefixField {
		field = prefixSetting
	}
	for _, spec := range f.specs(app) {
		v := reflect.ValueOf(spec).Elem()
		if setting, ok := v.Type().FieldByName(field); ok {
			return f.setting(envName(setting)), v.FieldByName(field).Interface(), true
		}
	}
	return "", nil, false
}

var fieldName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Z][A-Za-z]+(?:\.[A-Z][a-z]+)?`) })

// reword replaces names of fields in a reason by those of their settings.
func (f *functionSettings) reword(app *appSettings, reason string) string {
	return fieldName().ReplaceAllStringFunc(reason, func(field string) string {
		name, _, ok := f.lookup(app, field)
		switch {
		case !ok:
			return field
		case field == "DeadLetters":
			return name + "=container" // the store to choose if there is none
		}
		return name
	})
}

// unitHint explains a duration that was written as a plain number.
func unitHint(setting string) string {
	if n, err := strconv.Atoi(os.Getenv(setting)); err != nil || n == 0 || !strings.HasSuffix(setting, "_INTERVAL") {
		return ""
	}
	return ` (a plain number counts milliseconds; seconds are written "60s")`
}
