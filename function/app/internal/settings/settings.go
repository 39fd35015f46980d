// Package settings reads the environment into the settings of an app and of its functions,
// and refuses those that cannot work. It knows kinds of dead letter stores and names of
// connections, and opens neither.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/kelseyhightower/envconfig"

	"halley/handlers"
)

// Only drops the other functions; "" keeps all.
func (s *Settings) Only(function string) error {
	if function == "" {
		return nil
	}
	s.Functions = slices.DeleteFunc(s.Functions, func(f Function) bool { return f.Name != function })
	if len(s.Functions) == 0 {
		return fmt.Errorf("function %s is not enabled: choose from %s", function, s.App.Functions)
	}
	return nil
}

// Load reads the environment for the functions of the app. Each error names
// the setting and the fix.
func Load(of Source) (*Settings, error) { return LoadPreset(of, Preset{}) }

// Preset are defaults of a development run. The environment overrides each.
type Preset struct {
	Settings map[string]string // by the names of variables
	Emulator string            // endpoint of the account that the connection "emulator" selects
}

// LoadPreset reads the environment, and takes settings that it lacks from p.
func LoadPreset(of Source, p Preset) (*Settings, error) {
	s := &Settings{
		App:    App{Mode: ModeTimer, LogLevel: "info", LogFormat: FormatAuto},
		stores: storeKinds(of.Stores), presets: p.Settings, defaults: ConnectionDefaults{Emulator: p.Emulator, Unnamed: of.Credential},
	}
	functions := of.Handlers
	if err := refuseUnknown(of.Variables()); err != nil {
		return nil, err
	}
	if err := errors.Join(preset(s.presets, prefix, &s.App), process(prefix, &s.App)); err != nil {
		return nil, err
	}
	enabled, err := enable(functions, s.App.Functions)
	if err != nil {
		return nil, err
	}
	s.App.Functions = Names(enabled)
	s.zeros = s.App.fillDefaults()
	s.Values = append(s.Values, s.values(&s.App, prefix)...)
	var errs []error
	for _, f := range enabled {
		errs = append(errs, s.addFunction(f))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, s.validate()
}

// addFunction reads one function: its own values override those of the app.
func (s *Settings) addFunction(entry handlers.Entry) error {
	functionPrefix := ownPrefix(entry)
	f := NewFunction(entry)
	f.ConnectionDefaults = s.defaults
	ofHandler := func(p string, spec any) error { return preset(functionDefaults(entry), p, spec) }
	ofRun := func(p string, spec any) error { return preset(s.presets, p, spec) }
	for _, read := range []func(string, any) error{ofHandler, ofRun, process} {
		for _, p := range []string{prefix, functionPrefix} {
			if err := errors.Join(read(p, &f.Feed), read(p, &f.Delivery)); err != nil {
				return err
			}
		}
	}
	if err := f.DeadLetters.resolve(s.stores); err != nil {
		return fmt.Errorf("%s=%q: %w", f.Variable("DEAD_LETTERS"), withoutSecret(f.DeadLetters.String()), err)
	}
	var err error
	if f.Own, err = entry.Load(); err == nil {
		err = preset(s.presets, functionPrefix, f.Own)
	}
	if err != nil {
		return err
	}
	f.LeaseConnection = cmp.Or(f.LeaseConnection, f.Connection)
	f.LeaseDatabaseName = cmp.Or(f.LeaseDatabaseName, f.DatabaseName)
	s.zeros = append(s.zeros, f.fillDefaults(&s.App)...)
	s.Functions = append(s.Functions, f)
	s.Values = append(s.Values, s.values(&f.Feed, functionPrefix, prefix)...)
	s.Values = append(s.Values, s.values(&f.Delivery, functionPrefix, prefix)...)
	s.Values = append(s.Values, s.values(f.Own, functionPrefix)...)
	return nil
}

// NewFunction returns the defaults of settings that the runtime does not
// know: connections, databases and kinds of stores.
func NewFunction(entry handlers.Entry) Function {
	f := Function{Entry: entry}
	f.Connection = "CosmosDB"
	f.LeaseContainerName = "leases"
	f.LeaseContainerPrefix = entry.Name
	container := containerKind()
	f.DeadLetters = StoreSetting{Kind: container.Name, row: &container}
	f.DeadLettersConnection = "AzureWebJobsStorage"
	return f
}

// functionDefaults returns the defaults that a handler's function has of its own, by the
// names of the variables.
func functionDefaults(e handlers.Entry) map[string]string {
	named := map[string]string{}
	for name, text := range e.FunctionDefaults() {
		named[e.Prefix()+name] = text
	}
	return named
}

// preset sets the fields of spec that have a preset and no value in the environment.
func preset(presets map[string]string, prefix string, spec any) error {
	if len(presets) == 0 {
		return nil
	}
	for setting, value := range reflect.ValueOf(spec).Elem().Fields() {
		name := prefix + "_" + envName(setting)
		text, ok := presets[name]
		if !ok || os.Getenv(name) != "" {
			continue
		}
		if decoder, ok := value.Addr().Interface().(envconfig.Decoder); ok {
			if err := decoder.Decode(text); err != nil {
				return fmt.Errorf("preset %s=%s: %w", name, text, err)
			}
			continue
		}
		if err := setText(value, text); err != nil {
			return fmt.Errorf("preset %s=%s: %w", name, text, err)
		}
	}
	return nil
}

// setText sets a field of any type that envconfig knows, as it would set it from a
// variable with that text: text is the default of a variable that does not exist.
func setText(value reflect.Value, text string) error {
	one := reflect.New(reflect.StructOf([]reflect.StructField{{
		Name: "Value", Type: value.Type(), Tag: reflect.StructTag("default:" + strconv.Quote(text)),
	}}))
	if err := envconfig.Process(prefix+"_PRESET", one.Interface()); err != nil {
		return err
	}
	value.Set(one.Elem().Field(0))
	return nil
}

// process sets the fields of spec that have a variable. Its errors name settings and hide
// connection strings. envconfig is shown only these fields: it spells each name by regular
// expressions, which took half of the time in which an app reads its settings.
func process(prefix string, spec any) error {
	all := reflect.ValueOf(spec).Elem()
	var fields []reflect.StructField
	for field := range all.Fields() {
		if _, ok := os.LookupEnv(prefix + "_" + envName(field)); ok {
			fields = append(fields, field)
		}
	}
	part := reflect.New(reflect.StructOf(fields)).Elem()
	for i, field := range fields {
		part.Field(i).Set(all.FieldByIndex(field.Index))
	}
	err := envconfig.Process(prefix, part.Addr().Interface())
	for i, field := range fields {
		all.FieldByIndex(field.Index).Set(part.Field(i))
	}
	var parse *envconfig.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("%s=%q: %w", parse.KeyName, withoutSecret(parse.Value), parse.Err)
	}
	return err
}

// withoutSecret returns a value for an error, unless it could be a connection string.
func withoutSecret(value string) string {
	if strings.Contains(value, "=") {
		return redacted
	}
	return value
}

// enable returns the functions that HALLEY_FUNCTIONS names, or all if it is empty.
func enable(functions []handlers.Entry, wanted list) ([]handlers.Entry, error) {
	if len(wanted) == 0 {
		return functions, nil
	}
	all := Names(functions)
	for i, name := range wanted {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("HALLEY_FUNCTIONS names %q, which is not a function of this app: choose from %v", name, all)
		}
		if slices.Contains(wanted[:i], name) {
			return nil, fmt.Errorf("HALLEY_FUNCTIONS names %q twice: name it once", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(functions), func(f handlers.Entry) bool { return !slices.Contains(wanted, f.Name) }), nil
}

// Names lists the names of functions.
func Names(functions []handlers.Entry) list {
	var l list
	for _, f := range functions {
		l = append(l, f.Name)
	}
	return l
}

// refuseUnknown reports variables that begin with HALLEY_ and are not known settings,
// each with the nearest name of a setting.
func refuseUnknown(known []string) error {
	var errs []error
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(strings.ToUpper(name), prefix+"_") && !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("%s is not a setting: %s", name, suggest(name, known)))
		}
	}
	return errors.Join(errs...)
}

// suggest returns the fix for an unknown name.
func suggest(name string, known []string) string {
	best, distance := "", len(name)/3+1
	wanted := strings.Replace(strings.ToUpper(name), "BATCH_ITEMS", "MAX_ITEMS_PER_INVOCATION", 1) // as triggers call it
	for _, k := range known {
		if d := editDistance(wanted, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return "remove it, or see the command check for the settings there are"
	}
	return fmt.Sprintf("did you mean %s?", best)
}

// editDistance returns the Levenshtein distance in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// values lists spec's fields under the first prefix. If a variable is set under
// several of the prefixes, the first is the source.
func (s *Settings) values(spec any, prefixes ...string) []Value {
	v := reflect.ValueOf(spec).Elem()
	var out []Value
	for i := range v.NumField() {
		name := envName(v.Type().Field(i))
		out = append(out, Value{
			Name:   prefixes[0] + "_" + name,
			Value:  fmt.Sprint(v.Field(i).Interface()),
			Source: s.source(name, prefixes),
		})
	}
	return out
}

func (s *Settings) source(name string, prefixes []string) string {
	for _, p := range prefixes {
		if _, ok := os.LookupEnv(p + "_" + name); ok {
			return "environment " + p + "_" + name
		}
	}
	for _, p := range prefixes {
		if _, ok := s.presets[p+"_"+name]; ok {
			return "preset of dev"
		}
	}
	return "default"
}
