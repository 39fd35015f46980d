package settings

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
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
func (f *Function) specs(app *App) []any {
	return []any{app, &f.Feed, &f.Delivery}
}

// runtimeField returns the field of a trigger.Function or trigger.Options that
// the setting is copied to. It is not valid if there is none.
func runtimeField(of reflect.Value, setting reflect.StructField) reflect.Value {
	index, ok := runtimeFields(of.Type())[setting.Name]
	if !ok {
		return reflect.Value{}
	}
	field := of.FieldByIndex(index)
	if !setting.Type.ConvertibleTo(field.Type()) {
		return reflect.Value{} // DeadLetters: a setting names the store
	}
	return field
}

// fieldPlaces has the fields of a struct, by their type: map[string][]int.
var fieldPlaces sync.Map

// runtimeFields returns the indexes of a struct's fields by the names of their settings. Those of
// Checkpoint begin with its name.
func runtimeFields(of reflect.Type) map[string][]int {
	if known, ok := fieldPlaces.Load(of); ok {
		return known.(map[string][]int)
	}
	places := map[string][]int{}
	for _, field := range reflect.VisibleFields(of) {
		if field.Name == checkpointPrefix {
			for part := range field.Type.Fields() {
				places[checkpointPrefix+part.Name] = slices.Concat(field.Index, part.Index)
			}
			continue
		}
		places[field.Name] = field.Index
	}
	fieldPlaces.Store(of, places)
	return places
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

// TriggerFunction returns the function that the settings describe, without its handler
// and with a placeholder for a store that keeps dead letters.
func (f *Function) TriggerFunction(monitored *cosmos.Container) trigger.Function {
	fn := trigger.Function{FeedSource: trigger.FeedSource{Name: f.Name, LeasePrefix: f.LeaseContainerPrefix, Container: monitored}, DeadLetters: f.DeadLetters.Row().PlaceholderStore}
	if fn.LeasePrefix == "" { // which the Functions trigger has by default
		fn.LeasePrefix = trigger.NoLeasePrefix
	}
	toRuntime(&fn, &f.Feed, &f.Delivery)
	return fn
}

// LeaseSource returns the function as its leases see it.
func (f *Function) LeaseSource(monitored *cosmos.Container) leases.Source {
	return leases.Source(f.TriggerFunction(monitored).FeedSource)
}

// HostOptions returns the options of a host that runs the function. FeedPollDelay is
// each function's own.
func (f *Function) HostOptions(app *App) trigger.Options {
	var o trigger.Options
	toRuntime(&o, f.specs(app)...)
	o.FeedPollDelay = 0
	o.AppName = cmp.Or(o.AppName, os.Getenv("WEBSITE_SITE_NAME"), os.Getenv("AWS_LAMBDA_FUNCTION_NAME"), os.Getenv("CONTAINER_APP_NAME"))
	return o
}

// fillDefaults replaces zero settings of the app by the defaults of the runtime,
// and returns an error for each that was set to 0.
func (a *App) fillDefaults() []error {
	before := *a
	var o trigger.Options
	toRuntime(&o, a)
	o = o.WithDefaults()
	fromRuntime(&o, a)
	return zeros(&before, a, func(name string) string { return prefix + "_" + name })
}

// fillDefaults does the same with the settings of a function.
func (f *Function) fillDefaults(app *App) []error {
	feed, delivery := f.Feed, f.Delivery
	o, fn := f.HostOptions(app).WithDefaults(), f.TriggerFunction(nil).WithDefaults()
	fn.FeedPollDelay = cmp.Or(fn.FeedPollDelay, o.FeedPollDelay)
	fromRuntime(&o, &f.Feed, &f.Delivery)
	fromRuntime(&fn, &f.Feed, &f.Delivery)
	return append(zeros(&feed, &f.Feed, f.Variable), zeros(&delivery, &f.Delivery, f.Variable)...)
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
func (f *Function) problems(app *App) (errs []error) {
	for _, p := range append(f.TriggerFunction(nil).Validate(), f.HostOptions(app).Validate()...) {
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
func (f *Function) lookup(app *App, field string) (name string, value any, ok bool) {
	field = strings.ReplaceAll(field, ".", "")
	if field == prefixField {
		field = prefixSetting
	}
	for _, spec := range f.specs(app) {
		v := reflect.ValueOf(spec).Elem()
		if setting, ok := v.Type().FieldByName(field); ok {
			return f.Variable(envName(setting)), v.FieldByName(field).Interface(), true
		}
	}
	return "", nil, false
}

var fieldName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Z][A-Za-z]+(?:\.[A-Z][a-z]+)?`) })

// reword replaces names of fields in a reason by those of their settings.
func (f *Function) reword(app *App, reason string) string {
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
